// SPDX-License-Identifier: Apache-2.0
// E4M3 codes widened to BF16, exactly, a byte at a time: the high byte of a normal code is its exponent on BF16's bias
// (60 and the upper three bits of the magnitude), the low byte its lower four bits. Codes below 2^-6 take both bytes
// from tables, NaN an all-ones exponent. For processors without VBMI, which e4m3_avx512_vbmi.h needs.
#pragma once

#include <bit>
#include <cstdint>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

// Each of four 128-bit parts holds the same 16 entries, as an in-part shuffle reads them.
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
// A constant, so that vector code calls no shared inline function to make it.
inline constexpr NibbleTables kNibbleTables = MakeNibbleTables();

template <typename V>
struct E4M3ByShuffle {
  // 64 codes at `at` to two vectors of BF16 pairs: of each 128-bit part of codes the first eight, and the last.
  DUNLIN_INLINE void Widen(const std::byte* at, typename V::Ints& first, typename V::Ints& second) {
    using Ints = typename V::Ints;
    const Ints codes = V::LoadInts(at);
    const Ints magnitude = V::And(codes, V::BroadcastBytes(0x7F));
    const auto subnormal = V::LessBytes(magnitude, V::BroadcastBytes(8));
    const auto nan = V::EqualBytes(magnitude, V::BroadcastBytes(0x7F));

    const Ints upper = V::And(V::template ShiftRight16<4>(codes), V::BroadcastBytes(0x0F));
    Ints high = V::ShuffleBytes(V::LoadInts(kNibbleTables.exponent), upper);
    const Ints subnormal_high = V::ShuffleBytes(V::LoadInts(kNibbleTables.subnormal_high), magnitude);
    high = V::SelectBytes(subnormal, subnormal_high, high);
    high = V::SelectBytes(nan, V::BroadcastBytes(0x7F), high);
    high = V::OrAnd(high, codes, V::BroadcastBytes(0x80));

    Ints low = V::And(V::template ShiftLeft16<4>(codes), V::BroadcastBytes(0xF0));
    const Ints subnormal_low = V::ShuffleBytes(V::LoadInts(kNibbleTables.subnormal_low), magnitude);
    low = V::SelectBytes(subnormal, subnormal_low, low);
    first = V::UnpackLowBytes(low, high);
    second = V::UnpackHighBytes(low, high);
  }
};

}  // namespace dunlin::kernels::cpu::simd
