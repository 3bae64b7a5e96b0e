// E4M3 weights widen to BF16 exactly, a byte at a time: the high byte of a normal code is its exponent on BF16's bias
// (60 and the upper three bits of the magnitude), the low byte its lower four bits. Codes below 2^-6 take both bytes
// from tables, NaN an all-ones exponent. An unpack of both bytes gives two steps of the BF16 panel (packed_layout.h).
// AVX2 translation units only.
#pragma once

#include "kernels/cpu/avx2/lanes.h"
#include "kernels/cpu/e4m3_nibbles.h"

namespace dunlin::kernels::cpu::avx2 {

DUNLIN_LANE __m256i Bytes(int value) {
  return _mm256_set1_epi8(static_cast<char>(value));
}
DUNLIN_LANE __m256i Table(const uint8_t (&entries)[64]) {
  return _mm256_load_si256(reinterpret_cast<const __m256i*>(entries));
}

// 32 codes of half a vector to its pairs of the group's first and second step.
DUNLIN_LANE void WidenCodes(const std::byte* at, __m256i& first, __m256i& second) {
  const __m256i codes = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(at));
  const __m256i magnitude = _mm256_and_si256(codes, Bytes(0x7F));
  const __m256i subnormal = _mm256_cmpgt_epi8(Bytes(8), magnitude);
  const __m256i nan = _mm256_cmpeq_epi8(magnitude, Bytes(0x7F));

  const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(codes, 4), Bytes(0x0F));
  __m256i high = _mm256_shuffle_epi8(Table(kNibbleTables.exponent), upper);
  const __m256i small_high = _mm256_shuffle_epi8(Table(kNibbleTables.subnormal_high), magnitude);
  high = _mm256_blendv_epi8(high, small_high, subnormal);
  high = _mm256_or_si256(high, _mm256_and_si256(nan, Bytes(0x7F)));
  high = _mm256_or_si256(high, _mm256_and_si256(codes, Bytes(0x80)));

  __m256i low = _mm256_and_si256(_mm256_slli_epi16(codes, 4), Bytes(0xF0));
  const __m256i small_low = _mm256_shuffle_epi8(Table(kNibbleTables.subnormal_low), magnitude);
  low = _mm256_blendv_epi8(low, small_low, subnormal);
  first = _mm256_unpacklo_epi8(low, high);
  second = _mm256_unpackhi_epi8(low, high);
}

}  // namespace dunlin::kernels::cpu::avx2
