// BF16 pairs of AVX-512 tiles: K [D/2][16 tokens][2], V [8 token pairs][D][2]. A lane holds a pair: two dimensions of a
// key, or two keys of a dimension; here widened to two FP32 products. Included by the avx512_bf16*.cc only, which
// derive their own loaders from these; always inlined, so none of it leaves those files.
#pragma once

#include "kernels/cpu/attention/avx512_f32_step.h"

namespace dunlin::kernels::cpu::avx512 {

// Where the value pairs lie.
struct PairBlock {
  static constexpr int kTokens = 16;
  static constexpr int64_t kDimBytes = 4;
  DUNLIN_STEP int64_t StepBytes(int head_dim) { return (head_dim + 1) / 2 * int64_t{8}; }
};

DUNLIN_STEP __m512i LoadKeyPairs(const std::byte* const* blocks, int vector, int64_t step) {
  return _mm512_load_si512(blocks[vector] + step * 64);
}
DUNLIN_STEP __m512i LoadValuePairs(const std::byte* step, int vector, __mmask16 mask) {
  return _mm512_maskz_loadu_epi32(mask, step + 64 * vector);
}

// The first of a pair is its low half.
DUNLIN_STEP __m512 WidenPairs(__m512i pairs, int part) {
  return _mm512_castsi512_ps(part == 0 ? _mm512_slli_epi32(pairs, 16)
                                       : _mm512_and_si512(pairs, _mm512_set1_epi32(static_cast<int>(0xFFFF0000U))));
}

struct WidePairValues : F32Step, PairBlock {
  static constexpr int kKeys = 2;
  static constexpr int kParts = 2;
  DUNLIN_STEP __m512 Load(const std::byte* step, int part, int vector, __mmask16 mask) {
    return WidenPairs(LoadValuePairs(step, vector, mask), part);
  }
};

}  // namespace dunlin::kernels::cpu::avx512
