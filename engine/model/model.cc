// SPDX-License-Identifier: Apache-2.0
#include "engine/model/model.h"

#include <algorithm>
#include <cstddef>

#include "engine/base/check.h"

namespace dunlin::engine {

Model::~Model() {
  for (const Allocation& block : allocations_) device_->ops->release(device_->context, block.memory, block.bytes);
}

size_t Model::IndexOf(Precision precision) const {
  const auto found = std::find(precisions_.begin(), precisions_.end(), precision);
  DUNLIN_CHECK(found != precisions_.end(), "requested weights of a precision that is not resident");
  return static_cast<size_t>(found - precisions_.begin());
}

const PrecisionWeights& Model::weights(Precision precision) const {
  return weights_[IndexOf(precision)];
}

kernels::DeviceMemory Model::device_memory() const {
  kernels::DeviceMemory sum;
  for (int32_t rank = 0; rank < num_ranks(); ++rank) {
    const kernels::Device& device = *of_rank(rank).device_;
    const kernels::DeviceMemory memory = device.ops->memory(device.context);
    sum.bytes_held += memory.bytes_held;
    sum.bytes_peak += memory.bytes_peak;
    sum.allocations += memory.allocations;
  }
  return sum;
}

size_t Model::weight_bytes(Precision precision) const {
  size_t bytes = weight_bytes_[IndexOf(precision)];
  for (const std::unique_ptr<Model>& rank : other_ranks_) bytes += rank->weight_bytes(precision);
  return bytes;
}

}  // namespace dunlin::engine
