// The BF16 dot product of AVX-512: 32 products into 16 sums.
#include <immintrin.h>

#include "kernels/cpu/roofs/loops.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kChains = 20;  // as many as of FMA

}  // namespace

float Avx512Bf16DotRounds(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.0078125F), _mm512_set1_ps(-0.0078125F));
  const __m512bh others = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0F), _mm512_set1_ps(0.5F));
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_dpbf16_ps(sums[i], pairs, others);
  }
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_reduce_add_ps(total);
}

}  // namespace dunlin::kernels::cpu
