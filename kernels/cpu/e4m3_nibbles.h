// Tables by half a byte that widen E4M3 codes to the high and low byte of their BF16 values: see e4m3_codes.h of the
// variants. Made by the compiler: no shared function is called by those who read them.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels::cpu {

// For each of four 128-bit lanes the same 16 entries, as an in-lane shuffle reads them.
struct NibbleTables {
  alignas(64) uint8_t exponent[64];        // by magnitude / 16
  alignas(64) uint8_t subnormal_high[64];  // by magnitude below 8
  alignas(64) uint8_t subnormal_low[64];
};

constexpr NibbleTables MakeNibbleTables() {
  NibbleTables tables{};
  for (int i = 0; i < 64; ++i) {
    const int nibble = i % 16;
    tables.exponent[i] = static_cast<uint8_t>(60 + nibble % 8);
    if (nibble >= 8) continue;
    const uint32_t bits = std::bit_cast<uint32_t>(E4M3ToFloat(static_cast<uint8_t>(nibble))) >> 16;
    tables.subnormal_high[i] = static_cast<uint8_t>(bits >> 8);
    tables.subnormal_low[i] = static_cast<uint8_t>(bits & 0xFFU);
  }
  return tables;
}
inline constexpr NibbleTables kNibbleTables = MakeNibbleTables();

}  // namespace dunlin::kernels::cpu
