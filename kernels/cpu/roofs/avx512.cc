// SPDX-License-Identifier: Apache-2.0
// AVX-512 F, sixteen floats at a time.
#include <immintrin.h>

#include "kernels/cpu/roofs/vector_loops.h"

namespace dunlin::kernels::cpu {
namespace {

struct Vectors {
  using Floats = float __attribute__((vector_size(64)));
  using Words = uint64_t __attribute__((vector_size(64), may_alias));
};

}  // namespace

// Two FMAs a cycle with a latency of 4 cycles: 8 chains are enough, and 20 fit the 32 registers.
float Avx512FmaRounds(int64_t rounds) {
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 term = _mm512_set1_ps(0.001F);
  return RunChains<Vectors, 20>(rounds, [&](__m512 sum) { return _mm512_fmadd_ps(sum, factor, term); });
}
uint64_t Avx512Read(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  return ReadAll<Vectors>(data, bytes, prefetch_ahead);
}

}  // namespace dunlin::kernels::cpu
