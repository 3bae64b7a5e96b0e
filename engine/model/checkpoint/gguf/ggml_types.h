// SPDX-License-Identifier: Apache-2.0
// The element types of GGUF tensors: blocks of 1 to 256 elements of one row. All published types are known, so that
// sizes can be checked; those with a function are dequantised to FP32 as they are read.
// Source: github.com/ggml-org/ggml, include/ggml.h (numbers), src/ggml-common.h (blocks).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/checkpoint/tensor_dtype.h"

namespace dunlin::engine {

// Writes num_blocks * block_elements values; no alignment is required of `blocks`.
using DequantizeBlocks = void (*)(const uint8_t* blocks, size_t num_blocks, float* out);

struct GgmlType {
  uint32_t id;                  // in the file
  uint32_t block_elements;      // > 0; divides the length of every row
  uint32_t block_bytes;         // > 0
  DequantizeBlocks dequantize;  // null: stored as floats, or not loaded
  TensorDType presented;        // what a TensorSource gives: FP32 where there is a function, else as stored
};

// The row of that number, or null. Rows have static lifetime.
const GgmlType* FindGgmlType(uint32_t id);

}  // namespace dunlin::engine
