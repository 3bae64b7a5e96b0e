// SPDX-License-Identifier: Apache-2.0
// Softmax for P in BF16 without vreduceps, which has a third of an addition's throughput on Zen 5, and with the maxima
// of sixteen rows in one tree. Included by the files of the BF16 dot product's tables only; always inlined or templates
// over a file's own types, so its code stays in it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/avx512_bf16/probabilities.h"
#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/vector/softmax.h"

namespace dunlin::kernels::cpu::bf16_dot {

// Of RoundedExpRow. The values are added by pairs.
struct SubtractedP {
  DUNLIN_INLINE __m512 Exp2(__m512 x) {
    x = _mm512_max_ps(_mm512_set1_ps(2 * kExp2Smallest), x);  // no infinity: its fraction would be NaN
    const __m512 part = _mm512_sub_ps(x, _mm512_roundscale_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC));
    __m512 y = _mm512_set1_ps(kExp2Bf16Coefficients[3]);
#pragma GCC unroll 3
    for (int i = 2; i >= 0; --i) y = _mm512_fmadd_ps(y, part, _mm512_set1_ps(kExp2Bf16Coefficients[i]));
    return _mm512_scalef_ps(y, x);
  }
  DUNLIN_INLINE __m512 AddRounded(__m512 first, __m512 second, __m512 sum, uint16_t* p) {
    const __m512bh rounded = _mm512_cvtne2ps_pbh(second, first);
    _mm512_storeu_si512(p, (__m512i)rounded);
    return _mm512_dpbf16_ps(sum, rounded, (__m512bh)_mm512_set1_epi32(0x3F803F80));
  }
};

// RoundedExpRow with weights scaled before they are rounded: stores 2^(s scale - scaled_max) p_scale, zeros where the
// power is 0 whatever the scale, up to a multiple of 32, and returns sum + the powers, unrounded.
DUNLIN_INLINE __m512 ScaledExpRow(const float* s, int count, float scale, float scaled_max, const float* p_scale,
                                  __m512 sum, uint16_t* p) {
  const __m512 scales = _mm512_set1_ps(scale);
  const __m512 shift = _mm512_set1_ps(scaled_max);
  const __m512 zero = _mm512_setzero_ps();
  for (int j = 0; j < count; j += 32) {
    const uint32_t seen = count - j >= 32 ? 0xFFFFFFFFU : (1U << (count - j)) - 1U;
    __m512 weight[2];
#pragma GCC unroll 2
    for (int i = 0; i < 2; ++i) {
      const auto some = static_cast<__mmask16>(seen >> 16 * i);
      const __m512 x = _mm512_fmsub_ps(_mm512_maskz_loadu_ps(some, s + j + 16 * i), scales, shift);
      const __m512 power = _mm512_maskz_mov_ps(some, SubtractedP::Exp2(x));
      sum = _mm512_add_ps(sum, power);
      weight[i] = _mm512_maskz_mul_ps(_mm512_cmp_ps_mask(power, zero, _CMP_NEQ_UQ), power,
                                      _mm512_maskz_loadu_ps(some, p_scale + j + 16 * i));
    }
    _mm512_storeu_si512(p + j, (__m512i)_mm512_cvtne2ps_pbh(weight[1], weight[0]));
  }
  return sum;
}

// P of a row; returns sum + P. Step: the including file's; kScalesP says whether P is scaled.
template <typename Step>
DUNLIN_INLINE __m512 ExpRow(const float* s, int count, float scale, float scaled_max, const float* p_scale, __m512 sum,
                            uint16_t* p) {
  if constexpr (Step::kScalesP) return ScaledExpRow(s, count, scale, scaled_max, p_scale, sum, p);
  return RoundedExpRow<SubtractedP>(s, count, scale, scaled_max, sum, p);
}

// The largest of a row's scores by lanes.
DUNLIN_INLINE __m512 LaneMax(const float* s, int count) {
  const __m512 none = _mm512_set1_ps(attention::kMinusInfinity);
  __m512 max = none;
  int j = 0;
  for (; j + 16 <= count; j += 16) max = _mm512_max_ps(max, _mm512_loadu_ps(s + j));
  if (j < count) {
    max = _mm512_max_ps(max, _mm512_mask_loadu_ps(none, static_cast<__mmask16>((1U << (count - j)) - 1U), s + j));
  }
  return max;
}

// The maxima of up to sixteen rows. Each level folds two vectors into one, every row by the same order of its lanes, so
// that also a NaN is treated alike wherever a row stands.
DUNLIN_INLINE __m512 RowMaxima(const float* s, int64_t s_stride, int rows, const int32_t* valid) {
  __m512 max[16];
  // In this order the last level leaves row r in element r.
#pragma GCC unroll 16
  for (int i = 0; i < 16; ++i) {
    const int r = i / 4 + i % 4 * 4;
    max[i] = r < rows ? LaneMax(s + r * s_stride, valid[r]) : _mm512_setzero_ps();
  }
  __m512 eight[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; ++i) {
    eight[i] = _mm512_max_ps(_mm512_shuffle_f32x4(max[2 * i], max[2 * i + 1], 0x44),
                             _mm512_shuffle_f32x4(max[2 * i], max[2 * i + 1], 0xEE));
  }
  __m512 four[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    four[i] = _mm512_max_ps(_mm512_shuffle_f32x4(eight[2 * i], eight[2 * i + 1], 0x88),
                            _mm512_shuffle_f32x4(eight[2 * i], eight[2 * i + 1], 0xDD));
  }
  const __m512 low =
      _mm512_max_ps(_mm512_shuffle_ps(four[0], four[1], 0x44), _mm512_shuffle_ps(four[0], four[1], 0xEE));
  const __m512 high =
      _mm512_max_ps(_mm512_shuffle_ps(four[2], four[3], 0x44), _mm512_shuffle_ps(four[2], four[3], 0xEE));
  return _mm512_max_ps(_mm512_shuffle_ps(low, high, 0x88), _mm512_shuffle_ps(low, high, 0xDD));
}

template <typename Step>  // of the including file
void RunningSoftmax(const RunningSoftmaxArgs& args) {
  using Lanes = avx512::TileLanes;
  const __m512 scale = _mm512_set1_ps(args.scale);
  alignas(64) float scaled_max[16];
  for (int first = 0; first < args.rows; first += 16) {
    const int rows = args.rows - first < 16 ? args.rows - first : 16;
    const __mmask16 some = Lanes::FirstLanes(rows);
    const float* s = args.s + first * args.s_stride;
    const __m512 old_max = _mm512_maskz_loadu_ps(some, args.row_max + first);
    const __m512 max = _mm512_max_ps(RowMaxima(s, args.s_stride, rows, args.valid + first), old_max);
    _mm512_mask_storeu_ps(args.row_max + first, some, max);
    _mm512_mask_storeu_ps(args.alpha + first, some, attention::RescaleOf<Lanes>(old_max, max, scale));
    const __mmask16 none = _mm512_cmp_ps_mask(max, _mm512_set1_ps(attention::kMinusInfinity), _CMP_EQ_OQ);
    _mm512_store_ps(scaled_max, _mm512_mask_mov_ps(_mm512_mul_ps(max, scale), none, _mm512_setzero_ps()));
    for (int r = 0; r < rows; ++r, s += args.s_stride) {
      float* lane_sum = args.lane_sum + (first + r) * kLanes;
      const __m512 sum = _mm512_mul_ps(_mm512_load_ps(lane_sum), _mm512_set1_ps(args.alpha[first + r]));
      _mm512_store_ps(lane_sum, ExpRow<Step>(s, args.valid[first + r], args.scale, scaled_max[r], args.p_scale, sum,
                                             static_cast<uint16_t*>(args.p) + (first + r) * args.p_stride));
    }
  }
}

template <typename Step>
void ChunkSoftmax(const ChunkSoftmaxArgs& args) {
  for (int first = 0; first < args.rows; first += 16) {
    const int rows = args.rows - first < 16 ? args.rows - first : 16;
    const float* s = args.s + first * args.s_stride;
    alignas(64) float max[16];
    _mm512_store_ps(max, RowMaxima(s, args.s_stride, rows, args.valid + first));
    for (int r = 0; r < rows; ++r, s += args.s_stride) {
      const float scaled_max = attention::ScaledMax(max[r], args.scale);
      const __m512 sum =
          ExpRow<Step>(s, args.valid[first + r], args.scale, scaled_max, args.p_scale, _mm512_setzero_ps(),
                       static_cast<uint16_t*>(args.p) + (first + r) * args.p_stride);
      args.row_max[first + r] = max[r];
      args.row_sum[first + r] = _mm512_reduce_add_ps(sum);
    }
  }
}

}  // namespace dunlin::kernels::cpu::bf16_dot
