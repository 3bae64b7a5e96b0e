// The step of the BF16 dot product: a pair of BF16 of each activation row times a pair of each lane.
// Translation units with BF16 flags only.
#pragma once

#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/vector/tile.h"

namespace dunlin::kernels::cpu::avx512 {

struct MultiplyBf16Pair {
  static constexpr bool kFromMemory = false;
  DUNLIN_LANE __m512 Add(__m512 sum, __m512 a, __m512 w) {
    return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(w));
  }
};

// The same with a row's pair read by the product itself, which leaves the registers to the weights: for panels that are
// decoded vector by vector.
struct MultiplyBf16PairFromMemory : MultiplyBf16Pair {
  static constexpr bool kFromMemory = true;
  DUNLIN_LANE __m512 AddFrom(__m512 sum, const std::byte* a, __m512 w) {
    const vector::AliasedFloat& pair = *reinterpret_cast<const vector::AliasedFloat*>(a);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)  // which do not see what an asm reads
    return Add(sum, _mm512_set1_ps(pair), w);
#else
    asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(w), "m"(pair));
    return sum;
#endif
  }
};

}  // namespace dunlin::kernels::cpu::avx512
