// AVX-512 F, sixteen floats at a time.
#include <immintrin.h>

#include "kernels/cpu/roofs/loops.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kChains = 20;  // two FMAs a cycle of 4 cycles: 8 are enough, and 20 fit the 32 registers

}  // namespace

float Avx512FmaRounds(int64_t rounds) {
  __m512 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm512_set1_ps(static_cast<float>(i));
  const __m512 factor = _mm512_set1_ps(0.999F);
  const __m512 term = _mm512_set1_ps(0.001F);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 20
    for (int i = 0; i < kChains; ++i) sums[i] = _mm512_fmadd_ps(sums[i], factor, term);
  }
  __m512 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm512_add_ps(total, sums[i]);
  return _mm512_reduce_add_ps(total);
}

uint64_t Avx512Read(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  __m512i sums[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512()};
  for (size_t at = 0; at < bytes; at += kReadUnit) {
    for (size_t line = 0; prefetch_ahead > 0 && line < kReadUnit; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(data + at + prefetch_ahead + line), _MM_HINT_T0);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) sums[i] = _mm512_or_si512(sums[i], _mm512_load_si512(data + at + i * 64));
  }
  const __m512i total = _mm512_or_si512(_mm512_or_si512(sums[0], sums[1]), _mm512_or_si512(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm512_reduce_or_epi64(total));
}

}  // namespace dunlin::kernels::cpu
