// SPDX-License-Identifier: Apache-2.0
// Dequantisation of GGUF's block formats to FP32. Every product and sum is rounded to FP32 on its own, in the order of
// the Python package `gguf`, so that the results have its bits (compiled without contraction to fused multiply-adds).
// Pure. Source: github.com/ggml-org/ggml, src/ggml-common.h (layouts); gguf 0.19, quants.py (order of operations).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/api/code_levels.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {

// Blocks of 32 elements: one scale d, and a minimum m in those of type 1.
void DequantizeQ4Type0(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ4Type1(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ5Type0(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ5Type1(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ8Type0(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeIq4Nl(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeMxFp4(const uint8_t* blocks, size_t num_blocks, float* out);

// Blocks of 256 elements in groups of 16 or 32, whose scales are quantised too.
void DequantizeQ2K(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ3K(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ4K(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ5K(const uint8_t* blocks, size_t num_blocks, float* out);
void DequantizeQ6K(const uint8_t* blocks, size_t num_blocks, float* out);
// Values of the 4-bit codes of IQ4_NL and IQ4_XS.
inline constexpr const auto& kIq4Values = kernels::RowOf(kernels::CodeLevels::kIq4).values;

// The integer at `bytes`, which need no alignment.
template <typename Word>
Word WordAt(const uint8_t* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// The FP16 value at `bytes`.
inline float HalfAt(const uint8_t* bytes) {
  return kernels::Fp16ToFloat(WordAt<uint16_t>(bytes));
}

}  // namespace dunlin::engine
