// Query rows, output rows and score adjustment by vectors of 16 (tile_ops.h gives their meaning). Included by the
// vector files only, always inlined or templates over their types, so none of it leaves those files.
#pragma once

#include "kernels/cpu/attention/tanh.h"
#include "kernels/cpu/attention/vector_softmax.h"

namespace dunlin::kernels::cpu::vectors {

template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats LoadRow(const void* row, DType dtype, int d, typename Lanes::Tail tail) {
  if (dtype == DType::kF32) return Lanes::LoadFirst(static_cast<const float*>(row) + d, tail);
  const auto* halves = static_cast<const uint16_t*>(row) + d;
  return dtype == DType::kF16 ? Lanes::WidenFirstHalves(halves, tail) : Lanes::WidenFirstBf16(halves, tail);
}

// P: that of the table; BF16 packs pairs.
template <typename Step>
void LoadQuery(const QueryRowArgs& args) {
  using Lanes = typename Step::Lanes;
  const auto sign = Lanes::Set(args.sign);
  const auto all = Lanes::TailOf(16);
  for (int d = 0; d < args.head_dim; d += 16) {
    auto value = Lanes::Zero();
    if (args.sign != 0.0F) {
      value = LoadRow<Lanes>(args.in, args.in_dtype, d, Lanes::TailOf(args.head_dim - d));
      value = Lanes::Multiply(value, sign);
    }
    if (args.round_to_bf16) value = Lanes::RoundToBf16(value);
    if constexpr (sizeof(typename Step::P) == 2) {
      Lanes::StoreFirstBf16(args.packed + 2 * d, value, all);
    } else {
      Lanes::StoreAny(reinterpret_cast<float*>(args.packed) + d, value);
    }
  }
}

template <typename Step>
void StoreOutput(const OutputRowArgs& args) {
  using Lanes = typename Step::Lanes;
  const auto sum = Lanes::Set(args.sum);
  for (int d = 0; d < args.head_dim; d += 16) {
    const auto tail = Lanes::TailOf(args.head_dim - d);
    // Plus 0: products with a P of 0 may have turned a -0, by the sign of a value that the row does not see.
    const auto o = Lanes::Add(Lanes::Load(args.o + d), Lanes::Zero());
    const auto value = args.sum == 0.0F ? Lanes::Zero() : Lanes::Divide(o, sum);
    if (args.out_dtype == DType::kF32) {
      Lanes::StoreFirst(static_cast<float*>(args.out) + d, value, tail);
    } else if (args.out_dtype == DType::kF16) {
      Lanes::StoreFirstHalves(static_cast<uint16_t*>(args.out) + d, value, tail);
    } else {
      Lanes::StoreFirstBf16(static_cast<uint16_t*>(args.out) + d, Lanes::RoundToBf16(value), tail);
    }
  }
}

template <typename Lanes>
DUNLIN_INLINE typename Lanes::Floats Tanh(typename Lanes::Floats x) {
  const auto one = Lanes::Set(1.0F);
  const auto size = Lanes::Magnitude(x);
  const auto square = Lanes::Multiply(x, x);
  auto y = Lanes::Set(kTanhCoefficients[5]);
#pragma GCC unroll 8
  for (int i = 4; i >= 0; --i) y = Lanes::Fma(y, square, Lanes::Set(kTanhCoefficients[i]));
  const auto small = Lanes::Fma(Lanes::Multiply(y, square), x, x);
  // Min takes its second operand for a NaN, so that a NaN goes through.
  const auto exponent = Lanes::Multiply(Lanes::Min(Lanes::Set(kTanhLargest), size), Lanes::Set(kTanhExponent));
  const auto large = Lanes::Subtract(one, Lanes::Divide(Lanes::Set(2.0F), Lanes::Add(Exp2<Lanes>(exponent), one)));
  return Lanes::Choose(Lanes::Less(size, Lanes::Set(kTanhSmall)), small, Lanes::WithSign(large, x));
}

template <typename Step>
void AdjustRow(const AdjustRowArgs& args) {
  using Lanes = typename Step::Lanes;
  const auto inner = Lanes::Set(args.softcap == 0.0F ? args.scale : args.scale / args.softcap);
  const auto softcap = Lanes::Set(args.softcap);
  const auto slope = Lanes::Set(args.slope);
  for (int j = 0; j < args.count; j += 16) {
    const auto tail = Lanes::TailOf(args.count - j);
    auto s = Lanes::Multiply(Lanes::LoadFirst(args.s + j, tail), inner);
    if (args.softcap != 0.0F) s = Lanes::Multiply(Tanh<Lanes>(s), softcap);
    if (args.slope != 0.0F) s = Lanes::Fma(slope, Lanes::Counting(args.distance + j), s);
    if (args.bias != nullptr) s = Lanes::Add(s, LoadRow<Lanes>(args.bias, args.bias_dtype, j, tail));
    if (args.mask != nullptr) s = Lanes::Choose(Lanes::ZeroBytes(args.mask + j, tail), Lanes::Set(kMinusInfinity), s);
    Lanes::StoreFirst(args.s + j, s, tail);
  }
}

}  // namespace dunlin::kernels::cpu::vectors
