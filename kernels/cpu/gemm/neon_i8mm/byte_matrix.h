// SPDX-License-Identifier: Apache-2.0
// Products of inputs in 8 bits: a row or two by the dot product of four bytes, more by the matrix product of eight.
// Sums are integers, the same by both. Translation units with its instructions only.
#pragma once

#include "kernels/cpu/gemm/neon_dot/byte_dot.h"
#include "kernels/cpu/gemm/neon_i8mm/matrix_tile.h"

namespace dunlin::kernels::cpu::neon_i8mm {
namespace {

struct ByteMatrices {
  static constexpr uint32_t kFiller = 0;
  DUNLIN_INLINE float32x4_t Multiply(float32x4_t sums, float32x4_t activations, float32x4_t weights) {
    __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(sums) : "w"(activations), "w"(weights));
    return sums;
  }
};

template <WeightFormat kFormat>
struct Int8Inputs
    : simd::GroupedBytes<Lanes, kFormat, neon_dot::DotBytes<IntegerBits(kFormat)>, /*kSignedBytes=*/true> {
  using Panel = decltype(simd::BytesOf<Lanes, kFormat, /*kSignedBytes=*/true>());
  using SlicePanel = MatrixPanel<ByteMatrices>;
  using Widen = ToOperands<Panel>;
};

// For MakeInt8Kernels.
struct MatrixProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    simd::VectorGemm<Lanes, Int8Inputs<kFormat>>::Run(block);
  }
  static void Round(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
    neon_dot::DotProducts<float>::Round(row, columns, format, coded);
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::neon_i8mm
