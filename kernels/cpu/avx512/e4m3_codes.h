// E4M3 weights widen to BF16 exactly, a byte at a time: the high byte of a normal code is its exponent on BF16's bias
// (60 and the upper three bits of the magnitude), the low byte its lower four bits. Codes below 2^-6 take both bytes
// from tables, NaN an all-ones exponent. An unpack of both bytes gives two steps of the BF16 panel (packed_layout.h).
// Without VBMI, which e4m3_lookup.h needs. AVX-512 translation units only.
#pragma once

#include "kernels/cpu/avx512/lanes.h"
#include "kernels/cpu/e4m3_nibbles.h"

namespace dunlin::kernels::cpu::avx512 {

DUNLIN_LANE __m512i Bytes(int value) {
  return _mm512_set1_epi8(static_cast<char>(value));
}

// 64 codes of one vector to its pairs of the group's first and second step.
DUNLIN_LANE void WidenCodes(const std::byte* at, __m512i& first, __m512i& second) {
  const __m512i codes = _mm512_loadu_si512(at);
  const __m512i magnitude = _mm512_and_si512(codes, Bytes(0x7F));
  const __mmask64 subnormal = _mm512_testn_epi8_mask(codes, Bytes(0x78));
  const __mmask64 nan = _mm512_cmpeq_epi8_mask(magnitude, Bytes(0x7F));

  const __m512i upper = _mm512_and_si512(_mm512_srli_epi16(codes, 4), Bytes(0x0F));
  __m512i high = _mm512_shuffle_epi8(_mm512_load_si512(kNibbleTables.exponent), upper);
  high = _mm512_mask_shuffle_epi8(high, subnormal, _mm512_load_si512(kNibbleTables.subnormal_high), magnitude);
  high = _mm512_mask_mov_epi8(high, nan, Bytes(0x7F));
  constexpr int kOrOfAnd = 0xF0 | (0xCC & 0xAA);  // a | (b & c)
  high = _mm512_ternarylogic_epi32(high, codes, Bytes(0x80), kOrOfAnd);

  __m512i low = _mm512_and_si512(_mm512_slli_epi16(codes, 4), Bytes(0xF0));
  low = _mm512_mask_shuffle_epi8(low, subnormal, _mm512_load_si512(kNibbleTables.subnormal_low), magnitude);
  first = _mm512_unpacklo_epi8(low, high);
  second = _mm512_unpackhi_epi8(low, high);
}

}  // namespace dunlin::kernels::cpu::avx512
