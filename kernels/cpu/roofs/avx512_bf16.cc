// SPDX-License-Identifier: Apache-2.0
// The BF16 dot product of AVX-512: 32 products into 16 sums, in as many chains as FMA.
#include <immintrin.h>

#include "kernels/cpu/roofs/vector_loops.h"

namespace dunlin::kernels::cpu {
namespace {

struct Vectors {
  using Floats = float __attribute__((vector_size(64)));
};

}  // namespace

float Avx512Bf16DotRounds(int64_t rounds) {
  const __m512bh pairs = _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.0078125F), _mm512_set1_ps(-0.0078125F));
  const __m512bh others = _mm512_cvtne2ps_pbh(_mm512_set1_ps(1.0F), _mm512_set1_ps(0.5F));
  return RunChains<Vectors, 20>(rounds, [&](__m512 sum) { return _mm512_dpbf16_ps(sum, pairs, others); });
}

}  // namespace dunlin::kernels::cpu
