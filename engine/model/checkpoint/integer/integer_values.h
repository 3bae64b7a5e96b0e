// SPDX-License-Identifier: Apache-2.0
// The tensors beside the codes of a quantised weight, read whole. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/model/checkpoint/integer/integer_weight.h"
#include "engine/model/checkpoint/tensor_source.h"

namespace dunlin::engine {

inline constexpr int64_t kCodeWordBits = 32;  // of a word that packs several codes

// DATA_LOSS when it cannot be read.
absl::StatusOr<std::vector<std::byte>> ReadWhole(const TensorSource& source, const TensorInfo& tensor);

// Element `index` of a tensor of Ts.
template <class T>
T ElementAt(const std::vector<std::byte>& bytes, size_t index) {
  T value;
  std::memcpy(&value, bytes.data() + index * sizeof(T), sizeof(T));
  return value;
}

// A tensor of F32, F16 or BF16, widened; INVALID_ARGUMENT where a value is not finite.
absl::StatusOr<std::vector<float>> ReadFloats(const TensorSource& source, const TensorInfo& tensor);

// The scales of a weight in the order of the file, but for those that are quantised themselves (nested_scales).
// REQUIRES: there are none of these.
absl::StatusOr<std::vector<float>> ReadPlainScales(const TensorSource& source, const IntegerWeight& weight);

// The group of each column; empty: column / group. INVALID_ARGUMENT names tensor, element, value and limit of one that
// is not a group.
absl::StatusOr<std::vector<int32_t>> ReadGroupIndex(const TensorSource& source, const IntegerWeight& weight);

}  // namespace dunlin::engine
