// SPDX-License-Identifier: Apache-2.0
// P of the tables that multiply it in BF16. For files compiled with AVX512_BF16.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/attention/avx512/tile_lanes.h"
#include "kernels/cpu/attention/exp2.h"

namespace dunlin::kernels::cpu {

// How P is computed: Exp2 gives 2^x for a result that is rounded to BF16 with denormals as zeros, NaN going through;
// AddRounded stores 32 values so rounded and returns sum + those, as they were stored.

// The scaling takes the integer part of x itself; 0 below 2^-126. The even values are added, then the odd ones.
struct ReducedP {
  DUNLIN_INLINE __m512 Exp2(__m512 x) {
    const __m512 part = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
    __m512 y = _mm512_set1_ps(kExp2Bf16Coefficients[3]);
#pragma GCC unroll 3
    for (int i = 2; i >= 0; --i) y = _mm512_fmadd_ps(y, part, _mm512_set1_ps(kExp2Bf16Coefficients[i]));
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(kExp2Smallest), _CMP_NLT_UQ), y, x);
  }
  DUNLIN_INLINE __m512 AddRounded(__m512 first, __m512 second, __m512 sum, uint16_t* p) {
    const auto rounded = (__m512i)_mm512_cvtne2ps_pbh(second, first);
    _mm512_storeu_si512(p, rounded);
    sum = _mm512_add_ps(sum, avx512::TileLanes::FirstOfPairs(rounded));
    return _mm512_add_ps(sum, avx512::TileLanes::SecondOfPairs(rounded));
  }
};

// A Step::ExpRow of vector/softmax.h; its zeros reach to a multiple of 32.
template <typename P>
DUNLIN_INLINE __m512 RoundedExpRow(const float* s, int count, float scale, float scaled_max, __m512 sum, uint16_t* p) {
  const __m512 scales = _mm512_set1_ps(scale);
  const __m512 shift = _mm512_set1_ps(scaled_max);
  int j = 0;
#pragma GCC unroll 4
  for (; j + 32 <= count; j += 32) {
    const __m512 first = P::Exp2(_mm512_fmsub_ps(_mm512_loadu_ps(s + j), scales, shift));
    const __m512 second = P::Exp2(_mm512_fmsub_ps(_mm512_loadu_ps(s + j + 16), scales, shift));
    sum = P::AddRounded(first, second, sum, p + j);
  }
  if (j < count) {
    const uint32_t seen = (1U << (count - j)) - 1U;
    const auto low = static_cast<__mmask16>(seen);
    const auto high = static_cast<__mmask16>(seen >> 16);
    const __m512 first = P::Exp2(_mm512_fmsub_ps(_mm512_maskz_loadu_ps(low, s + j), scales, shift));
    const __m512 second = P::Exp2(_mm512_fmsub_ps(_mm512_maskz_loadu_ps(high, s + j + 16), scales, shift));
    sum = P::AddRounded(_mm512_maskz_mov_ps(low, first), _mm512_maskz_mov_ps(high, second), sum, p + j);
  }
  return sum;
}

}  // namespace dunlin::kernels::cpu
