// SPDX-License-Identifier: Apache-2.0
// Query rows, output rows and score adjustment by vectors of 16 (tile_ops.h gives their meaning). Included by the
// vector files only, always inlined or templates over their types, so no code is shared between them.
#pragma once

#include "kernels/cpu/attention/tanh.h"
#include "kernels/cpu/attention/vector/softmax.h"
#include "kernels/cpu/simd/rounding.h"

namespace dunlin::kernels::cpu::attention {

template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats LoadRow(const void* row, DType dtype, int d, typename Lanes::Mask tail) {
  if (dtype == DType::kF32) return Lanes::LoadMasked(static_cast<const float*>(row) + d, tail);
  const auto* halves = static_cast<const uint16_t*>(row) + d;
  return dtype == DType::kF16 ? Lanes::LoadFp16Masked(halves, tail) : Lanes::LoadBf16Masked(halves, tail);
}

// The high halves of the lanes.
template <typename Lanes>
DUNLIN_INLINE void StoreBf16(void* to, typename Lanes::Ints bits, typename Lanes::Mask mask) {
  Lanes::StoreLow16(static_cast<uint16_t*>(to), mask, Lanes::template ShiftRight<16>(bits));
}

// P: that of the table; BF16 packs pairs.
template <typename Step>
void LoadQuery(const QueryRowArgs& args) {
  using Lanes = typename Step::Lanes;
  const auto sign = Lanes::Broadcast(args.sign);
  const auto all = Lanes::FirstLanes(16);
  for (int d = 0; d < args.head_dim; d += 16) {
    auto value = Lanes::Zero();
    if (args.sign != 0.0F) {
      value = LoadRow<Lanes>(args.in, args.in_dtype, d, Lanes::FirstLanes(args.head_dim - d));
      value = Lanes::Mul(value, sign);
    }
    auto bits = Lanes::AsInts(value);
    if (args.round_to_bf16) bits = simd::Rounding<Lanes>::RoundToBf16(value);
    if constexpr (sizeof(typename Step::P) == 2) {
      StoreBf16<Lanes>(args.packed + 2 * d, bits, all);
    } else {
      if (args.round_to_bf16) bits = Lanes::And(bits, Lanes::BroadcastInts(~0xFFFF));
      Lanes::Store(args.packed + 4 * d, Lanes::AsFloats(bits));
    }
  }
}

template <typename Step>
void StoreOutput(const OutputRowArgs& args) {
  using Lanes = typename Step::Lanes;
  const auto sum = Lanes::Broadcast(args.sum);
  for (int d = 0; d < args.head_dim; d += 16) {
    const auto tail = Lanes::FirstLanes(args.head_dim - d);
    // Plus 0 makes a -0 a +0: a product of a zero P takes its sign from a value that the row does not see.
    const auto o = Lanes::Add(Lanes::Load(args.o + d), Lanes::Zero());
    const auto value = args.sum == 0.0F ? Lanes::Zero() : Lanes::Div(o, sum);
    if (args.out_dtype == DType::kF32) {
      Lanes::StoreMasked(static_cast<float*>(args.out) + d, tail, value);
    } else if (args.out_dtype == DType::kF16) {
      Lanes::StoreLow16(static_cast<uint16_t*>(args.out) + d, tail, Lanes::ToFp16Bits(value));
    } else {
      StoreBf16<Lanes>(static_cast<uint16_t*>(args.out) + d, simd::Rounding<Lanes>::RoundToBf16(value), tail);
    }
  }
}

template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats Tanh(typename Lanes::Floats x) {
  const auto one = Lanes::Broadcast(1.0F);
  const auto size = Lanes::Abs(x);
  const auto square = Lanes::Mul(x, x);
  auto y = Lanes::Broadcast(kTanhCoefficients[5]);
#pragma GCC unroll 8
  for (int i = 4; i >= 0; --i) y = Lanes::MulAdd(y, square, Lanes::Broadcast(kTanhCoefficients[i]));
  const auto small = Lanes::MulAdd(Lanes::Mul(y, square), x, x);
  // Min returns its second operand for a NaN, so that a NaN propagates.
  const auto exponent = Lanes::Mul(Lanes::Min(Lanes::Broadcast(kTanhLargest), size), Lanes::Broadcast(kTanhExponent));
  const auto large = Lanes::Sub(one, Lanes::Div(Lanes::Broadcast(2.0F), Lanes::Add(Exp2<Lanes>(exponent), one)));
  return Lanes::Select(Lanes::Greater(Lanes::Broadcast(kTanhSmall), size), small, Lanes::CopySign(large, x));
}

template <typename Step>
void AdjustRow(const AdjustRowArgs& args) {
  using Lanes = typename Step::Lanes;
  const auto inner = Lanes::Broadcast(args.softcap == 0.0F ? args.scale : args.scale / args.softcap);
  const auto softcap = Lanes::Broadcast(args.softcap);
  const auto slope = Lanes::Broadcast(args.slope);
  for (int j = 0; j < args.count; j += 16) {
    const auto tail = Lanes::FirstLanes(args.count - j);
    auto s = Lanes::Mul(Lanes::LoadMasked(args.s + j, tail), inner);
    if (args.softcap != 0.0F) s = Lanes::Mul(Tanh<Lanes>(s), softcap);
    if (args.slope != 0.0F) s = Lanes::MulAdd(slope, Lanes::Iota(args.distance + j), s);
    if (args.bias != nullptr) s = Lanes::Add(s, LoadRow<Lanes>(args.bias, args.bias_dtype, j, tail));
    if (args.mask != nullptr)
      s = Lanes::Select(Lanes::ZeroBytes(args.mask + j, tail), Lanes::Broadcast(kMinusInfinity), s);
    Lanes::StoreMasked(args.s + j, tail, s);
  }
}

}  // namespace dunlin::kernels::cpu::attention
