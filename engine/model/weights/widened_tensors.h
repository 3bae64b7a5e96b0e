// SPDX-License-Identifier: Apache-2.0
// A checkpoint with some of its FP8 matrices as the FP32 ones that they stand for, code times scale: for matrices whose
// rows change places or are cut, whose scales then no longer fit. A product is rounded once.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/derived_tensors.h"
#include "engine/model/checkpoint/quantization.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

class WidenedTensors final : public DerivedTensors {
 public:
  // names: of matrices, each once; those that `stored` does not have, or has in another dtype, stay as they are. The
  // scales of the others are no longer found. Errors: as FindScales; INVALID_ARGUMENT where such a tensor has not two
  // dimensions.
  static absl::StatusOr<std::unique_ptr<TensorSource>> Open(std::unique_ptr<TensorSource> stored,
                                                            const Quantization& quantization,
                                                            const std::vector<std::string>& names);

 private:
  explicit WidenedTensors(std::unique_ptr<TensorSource> stored) : DerivedTensors(std::move(stored)) {}
  // Of a tensor of stored() that is read as FP32 from now on.
  absl::Status Add(const Quantization& quantization, const TensorInfo& tensor);
  absl::Status ReadDerived(size_t index, uint64_t first_byte, std::span<std::byte> out) const override;
  // Elements [first, first + values.size()) of a matrix.
  absl::Status Widen(size_t index, uint64_t first, std::span<float> values) const;

  std::vector<PartScales> scales_;  // of the derived tensors
};

}  // namespace dunlin::engine
