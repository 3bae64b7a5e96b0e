// AVX-512 softmax and merge, over the P type (tile_ops.h gives their meaning). Included by the avx512_*.cc only, in an
// anonymous P tag's templates, so none of it leaves those files. A row's masked keys take no part: their lanes are
// replaced by -inf before the maximum, and their P is masked to 0.
// Instantiations: 1 P type per including file.
#pragma once

#include <immintrin.h>

#include <limits>

#include "kernels/cpu/attention/exp2.h"
#include "kernels/cpu/attention/tile_ops.h"

namespace dunlin::kernels::cpu::avx512 {

#define DUNLIN_INLINE static inline __attribute__((always_inline))

inline constexpr float kMinusInfinity = -std::numeric_limits<float>::infinity();

DUNLIN_INLINE __m512 Exp2(__m512 x) {
  const __m512 whole = _mm512_roundscale_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m512 part = _mm512_sub_ps(x, whole);
  __m512 y = _mm512_set1_ps(kExp2Coefficients[5]);
#pragma GCC unroll 8
  for (int i = 4; i >= 0; --i) y = _mm512_fmadd_ps(y, part, _mm512_set1_ps(kExp2Coefficients[i]));
  // Not below: a NaN goes through, -inf gives 0.
  const __mmask16 normal = _mm512_cmp_ps_mask(x, _mm512_set1_ps(kExp2Smallest), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, y, whole);
}

// The mask of the keys below count among the 16 from `first` on.
DUNLIN_INLINE __mmask16 Below(int count, int first) {
  const int left = count - first;
  return left >= 16 ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1U << left) - 1U);
}

// What is subtracted in the exponent. A row of nothing but -inf takes 0, and its P becomes 0.
DUNLIN_INLINE __m512 ScaledMax(__m512 max, __m512 scale) {
  const __mmask16 some = _mm512_cmp_ps_mask(max, _mm512_set1_ps(kMinusInfinity), _CMP_NEQ_UQ);
  return _mm512_maskz_mul_ps(some, max, scale);
}
DUNLIN_INLINE float ScaledMax(float max, float scale) {
  return max == kMinusInfinity ? 0.0F : max * scale;
}

// 2^((part_max - max) scale): what a sum taken against part_max is multiplied by. Exactly 1 when they are equal.
DUNLIN_INLINE __m512 RescaleOf(__m512 part_max, __m512 max, __m512 scale) {
  const __mmask16 equal = _mm512_cmp_ps_mask(part_max, max, _CMP_EQ_OQ);  // also of two -inf
  return _mm512_mask_mov_ps(Exp2(_mm512_mul_ps(_mm512_sub_ps(part_max, max), scale)), equal, _mm512_set1_ps(1.0F));
}

DUNLIN_INLINE float RowMax(const float* s, int count) {
  __m512 max = _mm512_set1_ps(kMinusInfinity);
  int j = 0;
  for (; j + 16 <= count; j += 16) max = _mm512_max_ps(max, _mm512_loadu_ps(s + j));
  if (j < count) max = _mm512_mask_max_ps(max, Below(count, j), max, _mm512_loadu_ps(s + j));
  return _mm512_reduce_max_ps(max);
}

// P of one row: 2^(s scale - scaled_max), zeros past count up to a multiple of 16. Returns sum * alpha + P by lanes.
template <typename Writer>
__m512 ExpRow(const float* s, int count, float scale, float scaled_max, __m512 sum, typename Writer::P* p) {
  const __m512 scales = _mm512_set1_ps(scale);
  const __m512 shift = _mm512_set1_ps(scaled_max);
  int j = 0;
#pragma GCC unroll 4
  for (; j + 16 <= count; j += 16) {
    const __m512 e = Exp2(_mm512_fmsub_ps(_mm512_loadu_ps(s + j), scales, shift));
    sum = _mm512_add_ps(sum, e);
    Writer::Store(p + j, e);
  }
  if (j < count) {
    const __m512 x = _mm512_fmsub_ps(_mm512_loadu_ps(s + j), scales, shift);
    const __m512 e = _mm512_maskz_mov_ps(Below(count, j), Exp2(x));
    sum = _mm512_add_ps(sum, e);
    Writer::Store(p + j, e);
  }
  return sum;
}

// Three passes: the tile's maximum of each row; the new maxima and factors, 16 rows a vector; the exponentials.
template <typename Writer>
void RunningSoftmax(const RunningSoftmaxArgs& args) {
  alignas(64) float tile_max[kMaxRows];
  alignas(64) float scaled_max[kMaxRows];
  for (int r = 0; r < args.rows; ++r) tile_max[r] = RowMax(args.s + r * args.s_stride, args.valid[r]);
  for (int r = 0; r < args.rows; r += 16) {
    const __mmask16 rows = Below(args.rows, r);
    const __m512 old_max = _mm512_maskz_loadu_ps(rows, args.row_max + r);
    const __m512 max = _mm512_max_ps(_mm512_maskz_loadu_ps(rows, tile_max + r), old_max);
    const __m512 alpha = RescaleOf(old_max, max, _mm512_set1_ps(args.scale));
    _mm512_mask_storeu_ps(args.row_max + r, rows, max);
    _mm512_mask_storeu_ps(args.alpha + r, rows, alpha);
    _mm512_store_ps(scaled_max + r, ScaledMax(max, _mm512_set1_ps(args.scale)));
  }
  for (int r = 0; r < args.rows; ++r) {
    float* lane_sum = args.lane_sum + r * kLanes;
    const __m512 sum = _mm512_mul_ps(_mm512_load_ps(lane_sum), _mm512_set1_ps(args.alpha[r]));
    _mm512_store_ps(lane_sum, ExpRow<Writer>(args.s + r * args.s_stride, args.valid[r], args.scale, scaled_max[r], sum,
                                             static_cast<typename Writer::P*>(args.p) + r * args.p_stride));
  }
}

template <typename Writer>
void ChunkSoftmax(const ChunkSoftmaxArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    const float* s = args.s + r * args.s_stride;
    const float max = RowMax(s, args.valid[r]);
    const __m512 sum = ExpRow<Writer>(s, args.valid[r], args.scale, ScaledMax(max, args.scale), _mm512_setzero_ps(),
                                      static_cast<typename Writer::P*>(args.p) + r * args.p_stride);
    args.row_max[r] = max;
    args.row_sum[r] = _mm512_reduce_add_ps(sum);
  }
}

template <typename Writer>  // of FP32
void FullSoftmax(const FullSoftmaxArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    float* s = args.s + r * args.s_stride;
    const int count = args.valid[r];
    const __m512 lanes =
        ExpRow<Writer>(s, count, args.scale, ScaledMax(RowMax(s, count), args.scale), _mm512_setzero_ps(), s);
    const float sum = _mm512_reduce_add_ps(lanes);
    if (sum == 0.0F) continue;  // every score is -inf: P is 0 already
    const __m512 sums = _mm512_set1_ps(sum);
    for (int j = 0; j < count; j += 16) _mm512_storeu_ps(s + j, _mm512_div_ps(_mm512_loadu_ps(s + j), sums));
  }
}

template <typename Tag>
void Merge(const MergeArgs& args) {
  for (int r = 0; r < args.rows; ++r) {
    const float old_max = args.row_max[r];
    const float chunk_max = args.chunk_max[r];
    const float max = chunk_max > old_max ? chunk_max : old_max;
    const __m512 maxes = _mm512_set1_ps(max);
    const __m512 keep = RescaleOf(_mm512_set1_ps(old_max), maxes, _mm512_set1_ps(args.scale));
    const __m512 take = RescaleOf(_mm512_set1_ps(chunk_max), maxes, _mm512_set1_ps(args.scale));
    args.row_max[r] = max;
    args.row_sum[r] = args.row_sum[r] * _mm512_cvtss_f32(keep) + args.chunk_sum[r] * _mm512_cvtss_f32(take);
    float* o = args.o + r * args.o_stride;
    const float* chunk_o = args.chunk_o + r * args.o_stride;
    for (int64_t d = 0; d < args.o_stride; d += 16) {
      const __m512 kept = _mm512_mul_ps(_mm512_load_ps(o + d), keep);
      _mm512_store_ps(o + d, _mm512_fmadd_ps(_mm512_load_ps(chunk_o + d), take, kept));
    }
  }
}

}  // namespace dunlin::kernels::cpu::avx512
