// exp of sixteen floats, within about 1.5 units in the last place; 0 below -104, infinity above 88.8, NaN stays NaN.
// Source: Cody & Waite reduction by ln 2 in two parts, Cephes expf polynomial. AVX-512 translation units only.
#pragma once

#include "kernels/cpu/avx512/lanes.h"

namespace dunlin::kernels::cpu::avx512 {

DUNLIN_LANE __m512 Exp(__m512 x) {
  // The bounds keep 2^n inside what scalef takes; the second operand of min and max is what a NaN lane returns.
  const __m512 bounded = _mm512_min_ps(_mm512_set1_ps(90.0F), _mm512_max_ps(_mm512_set1_ps(-105.0F), x));
  const __m512 n = _mm512_roundscale_ps(_mm512_mul_ps(bounded, _mm512_set1_ps(1.44269504F)), _MM_FROUND_TO_NEAREST_INT);
  __m512 r = _mm512_fnmadd_ps(n, _mm512_set1_ps(0.693359375F), bounded);
  r = _mm512_fnmadd_ps(n, _mm512_set1_ps(-2.12194440e-4F), r);
  __m512 p = _mm512_set1_ps(1.9875691500e-4F);
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.3981999507e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(8.3334519073e-3F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(4.1665795894e-2F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(1.6666665459e-1F));
  p = _mm512_fmadd_ps(p, r, _mm512_set1_ps(5.0000001201e-1F));
  p = _mm512_add_ps(_mm512_fmadd_ps(p, _mm512_mul_ps(r, r), r), _mm512_set1_ps(1.0F));
  return _mm512_scalef_ps(p, n);
}

}  // namespace dunlin::kernels::cpu::avx512
