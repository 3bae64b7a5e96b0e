// SPDX-License-Identifier: Apache-2.0
// AVX2 and FMA, eight floats at a time.
#include <immintrin.h>

#include "kernels/cpu/roofs/vector_loops.h"

namespace dunlin::kernels::cpu {
namespace {

struct Vectors {
  using Floats = float __attribute__((vector_size(32)));
  using Words = uint64_t __attribute__((vector_size(32), may_alias));
};

}  // namespace

// Two FMAs a cycle with a latency of 4 or 5 cycles: 10 chains are enough; 12 fit the 16 registers with two factors.
float Avx2FmaRounds(int64_t rounds) {
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 term = _mm256_set1_ps(0.001F);
  return RunChains<Vectors, 12>(rounds, [&](__m256 sum) { return _mm256_fmadd_ps(sum, factor, term); });
}
uint64_t Avx2Read(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  return ReadAll<Vectors>(data, bytes, prefetch_ahead);
}

}  // namespace dunlin::kernels::cpu
