// P of the tables that multiply it in BF16. For files compiled with AVX512_BF16.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/cpu/attention/lanes_avx512.h"

namespace dunlin::kernels::cpu {

// Stores 16 values rounded to BF16, denormals as zeros; returns them as floats.
DUNLIN_INLINE __m512 StoreRoundedP(uint16_t* p, __m512 e) {
  const auto rounded = (__m256i)_mm512_cvtneps_pbh(e);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), rounded);
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(rounded), 16));
}

}  // namespace dunlin::kernels::cpu
