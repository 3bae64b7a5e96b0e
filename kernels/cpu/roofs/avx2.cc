// AVX2 and FMA, eight floats at a time.
#include <immintrin.h>

#include "kernels/cpu/roofs/loops.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kChains =
    12;  // two FMAs a cycle of 4 or 5 cycles: 10 are enough; 12 fit the 16 registers with two factors

}  // namespace

float Avx2FmaRounds(int64_t rounds) {
  __m256 sums[kChains];
  for (int i = 0; i < kChains; ++i) sums[i] = _mm256_set1_ps(static_cast<float>(i));
  const __m256 factor = _mm256_set1_ps(0.999F);
  const __m256 term = _mm256_set1_ps(0.001F);
  for (int64_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (int i = 0; i < kChains; ++i) sums[i] = _mm256_fmadd_ps(sums[i], factor, term);
  }
  __m256 total = sums[0];
  for (int i = 1; i < kChains; ++i) total = _mm256_add_ps(total, sums[i]);
  alignas(32) float lanes[8];
  _mm256_store_ps(lanes, total);
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) + ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

uint64_t Avx2Read(const std::byte* data, size_t bytes, size_t prefetch_ahead) {
  __m256i sums[4] = {_mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256()};
  for (size_t at = 0; at < bytes; at += kReadUnit) {
    for (size_t line = 0; prefetch_ahead > 0 && line < kReadUnit; line += 64) {
      _mm_prefetch(reinterpret_cast<const char*>(data + at + prefetch_ahead + line), _MM_HINT_T0);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; ++i) {
      sums[i % 4] = _mm256_or_si256(sums[i % 4], _mm256_load_si256(reinterpret_cast<const __m256i*>(data + at) + i));
    }
  }
  const __m256i total = _mm256_or_si256(_mm256_or_si256(sums[0], sums[1]), _mm256_or_si256(sums[2], sums[3]));
  return static_cast<uint64_t>(_mm256_extract_epi64(total, 0) | _mm256_extract_epi64(total, 1) |
                               _mm256_extract_epi64(total, 2) | _mm256_extract_epi64(total, 3));
}

}  // namespace dunlin::kernels::cpu
