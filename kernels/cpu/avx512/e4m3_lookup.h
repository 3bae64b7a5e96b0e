// E4M3 codes widen to BF16 exactly by table: two 128-entry lookups give the high and low byte of each magnitude, the
// code's sign bit joins the high byte, and an unpack of both gives two vectors.
// Shifting the exponent instead would make BF16 subnormals, which the BF16 dot product takes for zero.
// Translation units with VBMI flags only.
#pragma once

#include <immintrin.h>

#include <bit>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/vector/lanes.h"

namespace dunlin::kernels::cpu::avx512 {

struct ByteTables {
  alignas(64) uint8_t high[128];
  alignas(64) uint8_t low[128];
};

constexpr ByteTables MakeByteTables() {
  ByteTables tables{};
  for (int code = 0; code < 128; ++code) {
    const uint32_t bits = std::bit_cast<uint32_t>(E4M3ToFloat(static_cast<uint8_t>(code))) >> 16;
    tables.high[code] = static_cast<uint8_t>(bits >> 8);
    tables.low[code] = static_cast<uint8_t>(bits & 0xFFU);
  }
  return tables;
}
inline constexpr ByteTables kTables =
    MakeByteTables();  // made by the compiler: no shared inline function is called here

// 64 codes to BF16: of each 128-bit lane the first eight, and the others.
DUNLIN_LANE void LookUpCodes(__m512i codes, __m512i& first, __m512i& second) {
  const __m512i magnitude =
      _mm512_permutex2var_epi8(_mm512_load_si512(kTables.high), codes, _mm512_load_si512(kTables.high + 64));
  constexpr int kOrOfAnd = 0xF0 | (0xCC & 0xAA);  // a | (b & c)
  const __m512i sign = _mm512_set1_epi8(static_cast<char>(0x80));
  const __m512i high = _mm512_ternarylogic_epi32(magnitude, codes, sign, kOrOfAnd);
  const __m512i low =
      _mm512_permutex2var_epi8(_mm512_load_si512(kTables.low), codes, _mm512_load_si512(kTables.low + 64));
  first = _mm512_unpacklo_epi8(low, high);
  second = _mm512_unpackhi_epi8(low, high);
}

}  // namespace dunlin::kernels::cpu::avx512
