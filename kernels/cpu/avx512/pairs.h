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

// A panel of pairs (kernels/cpu/vector/tile.h).
struct PairPanel {
  static constexpr int kSteps = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_LANE void Decode(const std::byte* at, Lanes::Floats (&weights)[2]) {
    weights[0] = DecodeStep(at, 0);
    weights[1] = DecodeStep(at, 1);
  }
  DUNLIN_LANE Lanes::Floats DecodeStep(const std::byte* at, int s) {
    const __m512i pairs = _mm512_loadu_si512(at);
    return s == 0 ? FirstOfPairs(pairs) : SecondOfPairs(pairs);
  }
};

}  // namespace dunlin::kernels::cpu::avx512
