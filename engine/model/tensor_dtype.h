// Element types that a safetensors file may name. All are known, so that their sizes can be checked; four are loaded.
// Source: safetensors 0.8, Dtype (the wire words and widths).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct TensorDType {
  const char* name;                        // the word in the file
  uint32_t bits;                           // of one element
  std::optional<kernels::DType> loadable;  // what kernels can pack from; empty when weights of it are refused
};

// The row of a word, or null. Rows live for ever.
const TensorDType* FindTensorDType(std::string_view name);
const TensorDType& TensorDTypeOf(kernels::DType dtype);

}  // namespace dunlin::engine
