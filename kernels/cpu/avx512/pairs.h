// BF16 pairs (first K in the low half) to floats, exactly. AVX-512 translation units only.
#pragma once

#include "kernels/cpu/avx512/lanes.h"

namespace dunlin::kernels::cpu::avx512 {

DUNLIN_LANE __m512 FirstOfPairs(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
DUNLIN_LANE __m512 SecondOfPairs(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(~0xFFFF)));
}

}  // namespace dunlin::kernels::cpu::avx512
