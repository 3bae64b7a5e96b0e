// SPDX-License-Identifier: Apache-2.0
// GGUF's IQ types of 256 elements as integer codes with scales of 8 bits and an FP32 factor a block: factor * scale *
// code has the bits of the Python package `gguf`. Codes of IQ1, IQ2 and IQ3 types are vectors of a grid
// (ggml_grids.inc) with a sign for each element, or a shift for all. Pure. Source: github.com/ggml-org/ggml,
// src/ggml-common.h (layouts); gguf 0.19, quants.py.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/checkpoint/gguf/ggml_codes.h"

namespace dunlin::engine {

// GgmlCodes::unpack of each type.
void UnpackIq2Xxs(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq2Xs(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq2S(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq3Xxs(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq3S(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq1S(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq1M(const uint8_t* blocks, size_t num_blocks, CodePointers out);
void UnpackIq4Xs(const uint8_t* blocks, size_t num_blocks, CodePointers out);

// The values of blocks of `block_bytes` bytes, by one of these and the elements of a scale.
template <auto kUnpack, size_t kBlockBytes, size_t kGroup>
void DequantizeCodes(const uint8_t* blocks, size_t num_blocks, float* out) {
  constexpr size_t kElements = 256;
  for (; num_blocks > 0; --num_blocks, blocks += kBlockBytes, out += kElements) {
    int8_t codes[kElements];
    int8_t scales[kElements / kGroup];
    float factor = 0.0F;
    kUnpack(blocks, 1,
            {.codes = codes,
             .factors = nullptr,
             .scales = scales,
             .min_factors = nullptr,
             .minimums = nullptr,
             .wide_factors = &factor});
    for (size_t i = 0; i < kElements; ++i) {
      const size_t group = i / kGroup;
      out[i] = factor * static_cast<float>(scales[group]) * static_cast<float>(codes[i]);
    }
  }
}

}  // namespace dunlin::engine
