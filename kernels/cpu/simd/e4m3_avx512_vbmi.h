// SPDX-License-Identifier: Apache-2.0
// E4M3 codes, and other numbers of 8 bits, widened to BF16, exactly, by table: two 128-entry lookups give the high and
// low byte of each magnitude, the code's sign bit joins the high byte, and an unpack of both gives two vectors.
// Shifting the exponent instead would make BF16 subnormals, which the BF16 dot product treats as zero. Translation
// units with VBMI flags only.
#pragma once

#include <immintrin.h>

#include <bit>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::avx512 {

struct ByteTables {
  alignas(64) uint8_t high[128];
  alignas(64) uint8_t low[128];
};

// value_of(magnitude): a float that BF16 holds exactly.
template <typename ValueOf>
constexpr ByteTables MakeByteTables(const ValueOf& value_of) {
  ByteTables tables{};
  for (int code = 0; code < 128; ++code) {
    const uint32_t bits = std::bit_cast<uint32_t>(static_cast<float>(value_of(static_cast<uint8_t>(code)))) >> 16;
    tables.high[code] = static_cast<uint8_t>(bits >> 8);
    tables.low[code] = static_cast<uint8_t>(bits & 0xFFU);
  }
  return tables;
}
// A constant, so that vector code calls no shared inline function to make it.
inline constexpr ByteTables kTables = MakeByteTables(E4M3ToFloat);

// 64 numbers to two vectors of BF16 pairs: of each 128-bit part the first eight, and the last. magnitudes: 7 bits each,
// the eighth is ignored; signs: in the eighth bit.
DUNLIN_INLINE void LookUpMagnitudes(const ByteTables& tables, __m512i magnitudes, __m512i signs, __m512i& first,
                                    __m512i& second) {
  const __m512i unsigned_high =
      _mm512_permutex2var_epi8(_mm512_load_si512(tables.high), magnitudes, _mm512_load_si512(tables.high + 64));
  constexpr int kOrOfAnd = 0xF0 | (0xCC & 0xAA);  // a | (b & c)
  const __m512i sign_bit = _mm512_set1_epi8(static_cast<char>(0x80));
  const __m512i high = _mm512_ternarylogic_epi32(unsigned_high, signs, sign_bit, kOrOfAnd);
  const __m512i low =
      _mm512_permutex2var_epi8(_mm512_load_si512(tables.low), magnitudes, _mm512_load_si512(tables.low + 64));
  first = _mm512_unpacklo_epi8(low, high);
  second = _mm512_unpackhi_epi8(low, high);
}

// 64 E4M3 codes.
DUNLIN_INLINE void LookUpCodes(__m512i codes, __m512i& first, __m512i& second) {
  LookUpMagnitudes(kTables, codes, codes, first, second);
}

struct E4M3ByLookup {
  DUNLIN_INLINE void Widen(const std::byte* at, __m512i& first, __m512i& second) {
    LookUpCodes(_mm512_loadu_si512(at), first, second);
  }
};

}  // namespace dunlin::kernels::cpu::avx512
