// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_factors.h"

#include <span>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace dunlin::engine {

absl::StatusOr<std::vector<float>> ReadGgufFactors(const GgufTensors& tensors, const char* name, size_t count,
                                                   float limit) {
  const TensorInfo* tensor = tensors.Find(name);
  std::vector<float> factors(count);
  if (tensor == nullptr || tensor->dtype->loadable != kernels::DType::kF32 ||
      tensor->end - tensor->begin != factors.size() * sizeof(float)) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' must be F32 of [", count, "]"));
  }
  absl::Status read = tensors.Read(*tensor, 0, std::as_writable_bytes(std::span(factors)));
  if (!read.ok()) return read;
  for (size_t i = 0; i < factors.size(); ++i) {
    if (!(factors[i] >= 1e-3F) || factors[i] > limit) {
      return absl::InvalidArgumentError(
          absl::StrFormat("tensor '%s'[%d] is %g; limit is [0.001, %.7g]", name, i, factors[i], limit));
    }
  }
  return factors;
}

}  // namespace dunlin::engine
