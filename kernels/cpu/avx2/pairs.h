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

}  // namespace dunlin::kernels::cpu::avx2
