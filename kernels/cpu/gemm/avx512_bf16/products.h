// SPDX-License-Identifier: Apache-2.0
// The step of the BF16 dot product: a pair of BF16 of each activation row times a pair of each lane.
// Translation units of this folder only.
#pragma once

#include "kernels/cpu/gemm/vector/block.h"
#include "kernels/cpu/simd/lanes_avx512.h"

namespace dunlin::kernels::cpu::avx512_bf16 {
namespace {

using avx512::Lanes;

template <simd::Locality kTarget>
struct PairProducts {
  struct Multiply {
    DUNLIN_INLINE __m512 Add(__m512 sum, __m512 a, __m512 w) {
      return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(w));
    }
  };
  using SlicePanel = simd::DensePanel<Lanes>;
  static constexpr int64_t kStepDepth = 2;
  static constexpr int kSmallMRows = 8;
  static constexpr int kMaxSmallM = 0;
  static constexpr int kMaxBlockScaledM = 0;
  static constexpr simd::Locality kLocality = kTarget;
  static constexpr bool kGrouped = false;
  static constexpr bool kIntegers = false;
};

}  // namespace
}  // namespace dunlin::kernels::cpu::avx512_bf16
