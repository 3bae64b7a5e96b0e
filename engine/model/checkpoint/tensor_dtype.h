// SPDX-License-Identifier: Apache-2.0
// The element types of safetensors files. All are known, so that sizes can be checked; four of them are loaded.
// Source: safetensors 0.8, Dtype (names and widths).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct TensorDType {
  const char* name;                        // in the file
  uint32_t bits;                           // of one element
  std::optional<kernels::DType> loadable;  // what kernels pack from; empty: weights of this type are refused
  // The types that weights are loaded from, for the refusal.
  const char* loaded_types = "F32, F16, BF16 and F8_E4M3";
};

// The row of that name, or null. Rows have static lifetime.
const TensorDType* FindTensorDType(std::string_view name);
const TensorDType& TensorDTypeOf(kernels::DType dtype);

}  // namespace dunlin::engine
