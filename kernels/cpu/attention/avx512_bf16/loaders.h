// SPDX-License-Identifier: Apache-2.0
// Keys and values as BF16 pairs, multiplied by the BF16 dot product: what the tables that do so derive their loaders
// from. Included by their files only; always inlined or templates over their types.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/avx512_bf16/probabilities.h"
#include "kernels/cpu/attention/avx512_bf16/softmax.h"
#include "kernels/cpu/attention/vector/loaders.h"
#include "kernels/cpu/attention/vector/rows.h"

namespace dunlin::kernels::cpu::bf16_dot {

struct DotStep {
  using Lanes = avx512::TileLanes;
  using P = uint16_t;
  using Vector = __m512bh;
  static constexpr bool kWidens = false;
  static constexpr bool kScalesKeys = false;
  static constexpr bool kScalesP = false;
  static constexpr int kKeys = 2;
  static constexpr int kParts = 1;
  DUNLIN_INLINE __m512bh Broadcast(const void* pair) {
    return (__m512bh)_mm512_set1_epi32(*static_cast<const int32_t*>(pair));
  }
  DUNLIN_INLINE __m512bh ScaleValue(const std::byte* /*block*/, int64_t /*slot*/, int /*head_dim*/, __m512bh value) {
    return value;
  }
  DUNLIN_INLINE __m512 Accumulate(__m512 sum, __m512bh a, __m512bh b) { return _mm512_dpbf16_ps(sum, a, b); }
};

struct PairKeys : DotStep {
  static constexpr int kStepBytes = 64;
  static constexpr int kPages = 4;
  DUNLIN_INLINE int64_t Steps(int head_dim) { return (head_dim + 1) / 2; }
  DUNLIN_INLINE __m512bh Load(const std::byte* const* blocks, int vector, int64_t step, int /*part*/) {
    return (__m512bh)Lanes::LoadInts(blocks[vector] + step * 64);
  }
};

struct PairValues : DotStep, attention::PairBlock {
  DUNLIN_INLINE __m512bh Load(const std::byte* step, int /*part*/, int vector, __mmask16 mask) {
    return (__m512bh)Lanes::LoadIntsMasked(step + 64 * vector, mask);
  }
  DUNLIN_INLINE __m512bh FirstKey(__m512bh pairs) {
    return (__m512bh)_mm512_and_si512((__m512i)pairs, _mm512_set1_epi32(0xFFFF));
  }
  DUNLIN_INLINE __m512bh LastKey(__m512bh pairs) {
    return (__m512bh)_mm512_and_si512((__m512i)pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U)));
  }
  DUNLIN_INLINE __m512 ExpRow(const float* s, int count, float scale, float scaled_max, __m512 sum, uint16_t* p) {
    return RoundedExpRow<bf16_dot::SubtractedP>(s, count, scale, scaled_max, sum, p);
  }
};

// FP32 rows of whole vectors are rounded by the instruction, which makes denormals zero, as the dot product would.
template <typename Values>  // of the including file
void LoadQuery(const QueryRowArgs& args) {
  if (args.in_dtype != DType::kF32 || args.sign == 0.0F || args.head_dim % 32 != 0) {
    return attention::LoadQuery<Values>(args);
  }
  const __m512 sign = _mm512_set1_ps(args.sign);
  const auto* in = static_cast<const float*>(args.in);
  for (int d = 0; d < args.head_dim; d += 32) {
    const __m512 first = _mm512_mul_ps(_mm512_loadu_ps(in + d), sign);
    const __m512 second = _mm512_mul_ps(_mm512_loadu_ps(in + d + 16), sign);
    _mm512_storeu_si512(args.packed + 2 * d, (__m512i)_mm512_cvtne2ps_pbh(second, first));
  }
}

}  // namespace dunlin::kernels::cpu::bf16_dot
