// Score adjustment by AVX-512 (tile_ops.h gives its meaning). Included by the avx512_*.cc only, always inlined or
// templates over their types, so none of it leaves those files.
#pragma once

#include <immintrin.h>

#include "kernels/cpu/attention/avx512_rows.h"
#include "kernels/cpu/attention/avx512_softmax.h"
#include "kernels/cpu/attention/tanh.h"

namespace dunlin::kernels::cpu::avx512 {

DUNLIN_INLINE __m512 Tanh(__m512 x) {
  const __m512 one = _mm512_set1_ps(1.0F);
  const __m512 size = _mm512_abs_ps(x);
  const __m512 square = _mm512_mul_ps(x, x);
  __m512 y = _mm512_set1_ps(kTanhCoefficients[5]);
#pragma GCC unroll 8
  for (int i = 4; i >= 0; --i) y = _mm512_fmadd_ps(y, square, _mm512_set1_ps(kTanhCoefficients[i]));
  const __m512 small = _mm512_fmadd_ps(_mm512_mul_ps(y, square), x, x);
  // min takes its second operand for a NaN, so that a NaN goes through.
  const __m512 exponent =
      _mm512_mul_ps(_mm512_min_ps(_mm512_set1_ps(kTanhLargest), size), _mm512_set1_ps(kTanhExponent));
  const __m512 large = _mm512_sub_ps(one, _mm512_div_ps(_mm512_set1_ps(2.0F), _mm512_add_ps(Exp2(exponent), one)));
  const __m512 sign = _mm512_and_ps(x, _mm512_set1_ps(-0.0F));
  const __mmask16 is_small = _mm512_cmp_ps_mask(size, _mm512_set1_ps(kTanhSmall), _CMP_LT_OQ);
  return _mm512_mask_mov_ps(_mm512_or_ps(large, sign), is_small, small);
}

// Tag: a type of the including file.
template <typename Tag>
void AdjustRow(const AdjustRowArgs& args) {
  const __m512 inner = _mm512_set1_ps(args.softcap == 0.0F ? args.scale : args.scale / args.softcap);
  const __m512 softcap = _mm512_set1_ps(args.softcap);
  const __m512 slope = _mm512_set1_ps(args.slope);
  __m512i distance = _mm512_add_epi32(_mm512_set1_epi32(args.distance),
                                      _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15));
  for (int j = 0; j < args.count; j += 16) {
    const __mmask16 lanes = RowMask(args.count - j);
    __m512 s = _mm512_mul_ps(_mm512_maskz_loadu_ps(lanes, args.s + j), inner);
    if (args.softcap != 0.0F) s = _mm512_mul_ps(Tanh(s), softcap);
    if (args.slope != 0.0F) s = _mm512_fmadd_ps(slope, _mm512_cvtepi32_ps(distance), s);
    if (args.bias != nullptr) s = _mm512_add_ps(s, LoadRow(args.bias, args.bias_dtype, j, lanes));
    if (args.mask != nullptr) {
      const __mmask16 hidden = _mm_testn_epi8_mask(_mm_maskz_loadu_epi8(lanes, args.mask + j), _mm_set1_epi8(-1));
      s = _mm512_mask_mov_ps(s, hidden, _mm512_set1_ps(kMinusInfinity));
    }
    _mm512_mask_storeu_ps(args.s + j, lanes, s);
    distance = _mm512_add_epi32(distance, _mm512_set1_epi32(16));
  }
}

}  // namespace dunlin::kernels::cpu::avx512
