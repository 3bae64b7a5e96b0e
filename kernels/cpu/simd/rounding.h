// SPDX-License-Identifier: Apache-2.0
// Rounding of rows to the small formats, bit for bit as kernels/api/float_formats.h: integer arithmetic, because the
// hardware's BF16 conversion takes subnormals for zero. Contracts: kernels/cpu/context/row_kernels.h.
#pragma once

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

template <typename V>
struct Rounding {
  using Floats = typename V::Floats;
  using Ints = typename V::Ints;
  using Mask = typename V::Mask;

  DUNLIN_INLINE Mask IsNan(Floats value) { return V::GreaterInts(Magnitude<V>(value), V::BroadcastInts(0x7F800000)); }
  DUNLIN_INLINE Ints SignBits(Floats value) {
    return V::And(V::AsInts(value), V::BroadcastInts(static_cast<int>(0x80000000)));
  }

  // bits + half a unit of the kept bits, ties to even: the `kDropped` lowest bits are then cut by the caller.
  template <int kDropped>
  DUNLIN_INLINE Ints RoundEven(Ints bits) {
    const Ints odd = V::And(V::template ShiftRight<kDropped>(bits), V::BroadcastInts(1));
    return V::AddInts(V::AddInts(bits, V::BroadcastInts((1 << (kDropped - 1)) - 1)), odd);
  }

  // |value| on the E4M3 grid as FP32 bits, saturated to 448; NaN lanes hold rubbish.
  DUNLIN_INLINE Ints RoundToE4M3Grid(Floats value) {
    const Ints magnitude = V::MinInts(Magnitude<V>(value), V::BroadcastInts(0x43E00000));  // 448
    const Ints normal = V::And(RoundEven<20>(magnitude), V::BroadcastInts(~0xFFFFF));
    // Below 2^-6 the grid is the multiples of 2^-9; both products are exact.
    const Floats steps = V::RoundToInteger(V::Mul(V::AsFloats(magnitude), V::Broadcast(0x1p9F)));
    const Ints small = V::AsInts(V::Mul(steps, V::Broadcast(0x1p-9F)));
    return V::SelectInts(V::GreaterInts(V::BroadcastInts(121 << 23), magnitude), small, normal);
  }

  // value rounded to BF16 in the high half of each lane; the low half is rubbish.
  DUNLIN_INLINE Ints RoundToBf16(Floats value) {
    const Ints bits = V::AsInts(value);
    const Ints quiet = V::Or(bits, V::BroadcastInts(0x00400000));  // a quiet NaN, payload kept
    return V::SelectInts(IsNan(value), quiet, RoundEven<16>(bits));
  }

  // value rounded to E4M3 as FP32 bits.
  DUNLIN_INLINE Ints RoundToE4M3(Floats value) {
    return V::Or(V::SelectInts(IsNan(value), V::BroadcastInts(0x7FC00000), RoundToE4M3Grid(value)), SignBits(value));
  }

  DUNLIN_INLINE Floats LoadScaled(const float* in, const Mask& mask, float factor) {
    return V::Mul(V::LoadMasked(in, mask), V::Broadcast(factor));
  }

  static void ToBf16(const float* in, int64_t n, uint16_t* out) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      V::StoreLow16(out + i, mask, V::template ShiftRight<16>(RoundToBf16(V::LoadMasked(in + i, mask))));
    });
  }

  static void ToFp16(const float* in, int64_t n, uint16_t* out) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats value = V::LoadMasked(in + i, mask);
      const Ints nan = V::Or(V::template ShiftRight<16>(SignBits(value)), V::BroadcastInts(0x7E00));
      V::StoreLow16(out + i, mask, V::SelectInts(IsNan(value), nan, V::ToFp16Bits(value)));
    });
  }

  static void ToE4M3(const float* in, float factor, int64_t n, uint8_t* out) {
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Floats value = LoadScaled(in + i, mask, factor);
      const Ints grid = RoundToE4M3Grid(value);
      const Ints normal = V::template ShiftRight<20>(V::SubInts(grid, V::BroadcastInts(120 << 23)));
      const Ints small = V::ToInts(V::Mul(V::AsFloats(grid), V::Broadcast(512.0F)));
      Ints code = V::SelectInts(V::GreaterInts(V::BroadcastInts(121 << 23), grid), small, normal);
      code = V::SelectInts(IsNan(value), V::BroadcastInts(0x7F), code);
      V::StoreLow8(out + i, mask, V::Or(code, V::template ShiftRight<24>(SignBits(value))));
    });
  }

  static void Bf16RowOfBf16(const float* in, int64_t n, void* row) { ToBf16(in, n, static_cast<uint16_t*>(row)); }

  static void Bf16RowOfFloats(const float* in, int64_t n, void* row) {
    auto* out = static_cast<float*>(row);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Ints rounded = RoundToBf16(V::LoadMasked(in + i, mask));
      V::StoreMasked(out + i, mask, V::AsFloats(V::And(rounded, V::BroadcastInts(~0xFFFF))));
    });
  }

  static void Fp8RowOfBf16(const float* in, float factor, int64_t n, void* row) {
    auto* out = static_cast<uint16_t*>(row);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      const Ints bits = RoundToE4M3(LoadScaled(in + i, mask, factor));
      V::StoreLow16(out + i, mask, V::template ShiftRight<16>(bits));
    });
  }

  static void Fp8RowOfFloats(const float* in, float factor, int64_t n, void* row) {
    auto* out = static_cast<float*>(row);
    ForEachVector<V>(n, [&](int64_t i, const Mask& mask) {
      V::StoreMasked(out + i, mask, V::AsFloats(RoundToE4M3(LoadScaled(in + i, mask, factor))));
    });
  }
};

}  // namespace dunlin::kernels::cpu::simd
