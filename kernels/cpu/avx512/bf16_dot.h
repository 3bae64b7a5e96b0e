// The step of the BF16 dot product: a pair of BF16 of each activation row times a pair of each lane.
// Translation units with BF16 flags only.
#pragma once

#include "kernels/cpu/avx512/lanes.h"

namespace dunlin::kernels::cpu::avx512 {

struct MultiplyBf16Pair {
  DUNLIN_LANE __m512 Add(__m512 sum, __m512 a, __m512 w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(w));
  }
};

}  // namespace dunlin::kernels::cpu::avx512
