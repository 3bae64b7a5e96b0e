// Sixteen floats at a time, with a mask for the end of a row. AVX-512 translation units only.
#pragma once

#include <immintrin.h>

#include <cstdint>

#define DUNLIN_LANE static inline __attribute__((always_inline))

namespace dunlin::kernels::cpu::avx512 {

inline constexpr int64_t kLanes = 16;

// The mask of the lanes that exist when `left` > 0 elements remain.
DUNLIN_LANE __mmask16 LaneMask(int64_t left) {
  return left >= kLanes ? static_cast<__mmask16>(0xFFFF) : static_cast<__mmask16>((1U << left) - 1U);
}

// body(first, mask) over n elements, 16 at a time.
template <typename Body>
DUNLIN_LANE void ForEachVector(int64_t n, const Body& body) {
  for (int64_t i = 0; i < n; i += kLanes) body(i, LaneMask(n - i));
}

DUNLIN_LANE __m512i Magnitude(__m512 value) {
  return _mm512_and_si512(_mm512_castps_si512(value), _mm512_set1_epi32(0x7FFFFFFF));
}

}  // namespace dunlin::kernels::cpu::avx512
