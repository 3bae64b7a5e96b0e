// BF16 pairs (first K in the low half) to floats, exactly. AVX2 translation units only.
#pragma once

#include "kernels/cpu/avx2/lanes.h"

namespace dunlin::kernels::cpu::avx2 {

DUNLIN_LANE Lanes::Floats FirstOfPairs(Lanes::Ints pairs) {
  return Lanes::FloatsOf({_mm256_slli_epi32(pairs.low, 16), _mm256_slli_epi32(pairs.high, 16)});
}
DUNLIN_LANE Lanes::Floats SecondOfPairs(Lanes::Ints pairs) {
  return Lanes::FloatsOf(Lanes::And(pairs, Lanes::AllInts(~0xFFFF)));
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
    const Lanes::Ints pairs = Lanes::Bits(Lanes::Load(at));
    return s == 0 ? FirstOfPairs(pairs) : SecondOfPairs(pairs);
  }
};

}  // namespace dunlin::kernels::cpu::avx2
