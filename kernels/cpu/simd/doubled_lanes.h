// SPDX-License-Identifier: Apache-2.0
// Twice the lanes of Part, with the functions of a lanes type (lanes_avx512.h) that treat each lane, or each 128 bits,
// alone: each is Part's for both halves. Included by the files that define a lanes type only.
#pragma once

#include <cstddef>

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

template <typename Part>
struct DoubledLanes {
  struct Floats {
    typename Part::Floats low;
    typename Part::Floats high;
  };
  struct Ints {
    typename Part::Ints low;
    typename Part::Ints high;
  };
  struct Mask {
    typename Part::Mask low;
    typename Part::Mask high;
  };
  struct ByteMask {
    typename Part::ByteMask low;
    typename Part::ByteMask high;
  };
  using Factor = typename Part::Factor;
  static constexpr int kCount = 2 * Part::kCount;

  DUNLIN_INLINE Floats Broadcast(float value) { return {Part::Broadcast(value), Part::Broadcast(value)}; }
  DUNLIN_INLINE Floats Zero() { return Broadcast(0.0F); }
  DUNLIN_INLINE Floats Load(const void* from) { return {Part::Load(from), Part::Load(SecondHalf(from, 4))}; }
  DUNLIN_INLINE void Store(void* to, Floats x) {
    Part::Store(to, x.low);
    Part::Store(static_cast<std::byte*>(to) + Part::kCount * 4, x.high);
  }
  DUNLIN_INLINE Ints LoadUint16(const void* from) {
    return {Part::LoadUint16(from), Part::LoadUint16(SecondHalf(from, 2))};
  }
  DUNLIN_INLINE Floats LoadFp16(const void* from) {
    return {Part::LoadFp16(from), Part::LoadFp16(SecondHalf(from, 2))};
  }
  DUNLIN_INLINE Floats LoadBf16(const void* from) {
    return {Part::LoadBf16(from), Part::LoadBf16(SecondHalf(from, 2))};
  }
  DUNLIN_INLINE Ints LoadInts(const void* from) { return AsInts(Load(from)); }

  DUNLIN_INLINE Floats Add(Floats a, Floats b) { return {Part::Add(a.low, b.low), Part::Add(a.high, b.high)}; }
  DUNLIN_INLINE Floats Sub(Floats a, Floats b) { return {Part::Sub(a.low, b.low), Part::Sub(a.high, b.high)}; }
  DUNLIN_INLINE Floats Mul(Floats a, Floats b) { return {Part::Mul(a.low, b.low), Part::Mul(a.high, b.high)}; }
  DUNLIN_INLINE Floats Div(Floats a, Floats b) { return {Part::Div(a.low, b.low), Part::Div(a.high, b.high)}; }
  DUNLIN_INLINE Floats Min(Floats a, Floats b) { return {Part::Min(a.low, b.low), Part::Min(a.high, b.high)}; }
  DUNLIN_INLINE Floats Max(Floats a, Floats b) { return {Part::Max(a.low, b.low), Part::Max(a.high, b.high)}; }
  DUNLIN_INLINE Floats MulAdd(Floats a, Floats b, Floats c) {
    return {Part::MulAdd(a.low, b.low, c.low), Part::MulAdd(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Floats NegMulAdd(Floats a, Floats b, Floats c) {
    return {Part::NegMulAdd(a.low, b.low, c.low), Part::NegMulAdd(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Floats MulSub(Floats a, Floats b, Floats c) {
    return {Part::MulSub(a.low, b.low, c.low), Part::MulSub(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Factor ToFactor(float value) { return value; }
  DUNLIN_INLINE Floats OfFactor(Factor factor) { return Broadcast(factor); }
  DUNLIN_INLINE Floats Accumulate(Floats sum, Factor a, Floats b) {
    return {Part::Accumulate(sum.low, a, b.low), Part::Accumulate(sum.high, a, b.high)};
  }
  DUNLIN_INLINE Floats RoundToInteger(Floats x) { return {Part::RoundToInteger(x.low), Part::RoundToInteger(x.high)}; }
  DUNLIN_INLINE Mask Greater(Floats a, Floats b) {
    return {Part::Greater(a.low, b.low), Part::Greater(a.high, b.high)};
  }
  DUNLIN_INLINE Mask NotLess(Floats a, Floats b) {
    return {Part::NotLess(a.low, b.low), Part::NotLess(a.high, b.high)};
  }
  DUNLIN_INLINE Mask Equal(Floats a, Floats b) { return {Part::Equal(a.low, b.low), Part::Equal(a.high, b.high)}; }
  DUNLIN_INLINE Floats Select(const Mask& mask, Floats a, Floats b) {
    return {Part::Select(mask.low, a.low, b.low), Part::Select(mask.high, a.high, b.high)};
  }
  DUNLIN_INLINE Floats SelectOrZero(const Mask& mask, Floats x) {
    return {Part::SelectOrZero(mask.low, x.low), Part::SelectOrZero(mask.high, x.high)};
  }

  DUNLIN_INLINE Ints AsInts(Floats x) { return {Part::AsInts(x.low), Part::AsInts(x.high)}; }
  DUNLIN_INLINE Floats AsFloats(Ints x) { return {Part::AsFloats(x.low), Part::AsFloats(x.high)}; }
  DUNLIN_INLINE Floats ToFloats(Ints x) { return {Part::ToFloats(x.low), Part::ToFloats(x.high)}; }
  DUNLIN_INLINE Ints ToInts(Floats x) { return {Part::ToInts(x.low), Part::ToInts(x.high)}; }
  DUNLIN_INLINE Ints ToFp16Bits(Floats x) { return {Part::ToFp16Bits(x.low), Part::ToFp16Bits(x.high)}; }
  DUNLIN_INLINE Ints BroadcastInts(int value) { return {Part::BroadcastInts(value), Part::BroadcastInts(value)}; }
  DUNLIN_INLINE Ints And(Ints a, Ints b) { return {Part::And(a.low, b.low), Part::And(a.high, b.high)}; }
  DUNLIN_INLINE Ints Or(Ints a, Ints b) { return {Part::Or(a.low, b.low), Part::Or(a.high, b.high)}; }
  DUNLIN_INLINE Ints OrAnd(Ints a, Ints b, Ints c) { return Or(a, And(b, c)); }
  DUNLIN_INLINE Ints XorAnd(Ints a, Ints b, Ints c) {
    return {Part::XorAnd(a.low, b.low, c.low), Part::XorAnd(a.high, b.high, c.high)};
  }
  DUNLIN_INLINE Ints AddInts(Ints a, Ints b) { return {Part::AddInts(a.low, b.low), Part::AddInts(a.high, b.high)}; }
  DUNLIN_INLINE Ints SubInts(Ints a, Ints b) { return {Part::SubInts(a.low, b.low), Part::SubInts(a.high, b.high)}; }
  DUNLIN_INLINE Ints MinInts(Ints a, Ints b) { return {Part::MinInts(a.low, b.low), Part::MinInts(a.high, b.high)}; }
  DUNLIN_INLINE Ints MaxInts(Ints a, Ints b) { return {Part::MaxInts(a.low, b.low), Part::MaxInts(a.high, b.high)}; }
  DUNLIN_INLINE Ints AccumulateInts(Ints sum, Ints x) { return AddInts(sum, x); }
  DUNLIN_INLINE Mask GreaterInts(Ints a, Ints b) {
    return {Part::GreaterInts(a.low, b.low), Part::GreaterInts(a.high, b.high)};
  }
  DUNLIN_INLINE Ints SelectInts(const Mask& mask, Ints a, Ints b) {
    return {Part::SelectInts(mask.low, a.low, b.low), Part::SelectInts(mask.high, a.high, b.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft(Ints x) {
    return {Part::template ShiftLeft<kBits>(x.low), Part::template ShiftLeft<kBits>(x.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight(Ints x) {
    return {Part::template ShiftRight<kBits>(x.low), Part::template ShiftRight<kBits>(x.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned(Ints x) {
    return {Part::template ShiftRightSigned<kBits>(x.low), Part::template ShiftRightSigned<kBits>(x.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftLeft16(Ints x) {
    return {Part::template ShiftLeft16<kBits>(x.low), Part::template ShiftLeft16<kBits>(x.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRight16(Ints x) {
    return {Part::template ShiftRight16<kBits>(x.low), Part::template ShiftRight16<kBits>(x.high)};
  }
  template <int kBits>
  DUNLIN_INLINE Ints ShiftRightSigned16(Ints x) {
    return {Part::template ShiftRightSigned16<kBits>(x.low), Part::template ShiftRightSigned16<kBits>(x.high)};
  }
  DUNLIN_INLINE Floats FirstOfPairs(Ints pairs) { return AsFloats(ShiftLeft<16>(pairs)); }
  DUNLIN_INLINE Floats SecondOfPairs(Ints pairs) { return AsFloats(And(pairs, BroadcastInts(~0xFFFF))); }

  DUNLIN_INLINE Ints BroadcastBytes(int value) { return {Part::BroadcastBytes(value), Part::BroadcastBytes(value)}; }
  DUNLIN_INLINE Ints AddBytes(Ints a, Ints b) { return {Part::AddBytes(a.low, b.low), Part::AddBytes(a.high, b.high)}; }
  DUNLIN_INLINE Ints ShuffleBytes(Ints a, Ints b) {
    return {Part::ShuffleBytes(a.low, b.low), Part::ShuffleBytes(a.high, b.high)};
  }
  DUNLIN_INLINE Ints UnpackLowBytes(Ints a, Ints b) {
    return {Part::UnpackLowBytes(a.low, b.low), Part::UnpackLowBytes(a.high, b.high)};
  }
  DUNLIN_INLINE Ints UnpackHighBytes(Ints a, Ints b) {
    return {Part::UnpackHighBytes(a.low, b.low), Part::UnpackHighBytes(a.high, b.high)};
  }
  DUNLIN_INLINE Ints MulSignedBytePairs(Ints a, Ints b) {
    return {Part::MulSignedBytePairs(a.low, b.low), Part::MulSignedBytePairs(a.high, b.high)};
  }
  DUNLIN_INLINE Ints AccumulateWords(Ints a, Ints b) {
    return {Part::AccumulateWords(a.low, b.low), Part::AccumulateWords(a.high, b.high)};
  }
  DUNLIN_INLINE Ints SumWordPairs(Ints x) { return {Part::SumWordPairs(x.low), Part::SumWordPairs(x.high)}; }
  DUNLIN_INLINE ByteMask LessBytes(Ints a, Ints b) {
    return {Part::LessBytes(a.low, b.low), Part::LessBytes(a.high, b.high)};
  }
  DUNLIN_INLINE ByteMask EqualBytes(Ints a, Ints b) {
    return {Part::EqualBytes(a.low, b.low), Part::EqualBytes(a.high, b.high)};
  }
  DUNLIN_INLINE Ints SelectBytes(const ByteMask& mask, Ints a, Ints b) {
    return {Part::SelectBytes(mask.low, a.low, b.low), Part::SelectBytes(mask.high, a.high, b.high)};
  }
  DUNLIN_INLINE bool Any(const ByteMask& mask) { return Part::Any(mask.low) || Part::Any(mask.high); }

 private:
  // The second half of elements of so many bytes.
  DUNLIN_INLINE const void* SecondHalf(const void* from, int bytes) {
    return static_cast<const std::byte*>(from) + Part::kCount * bytes;
  }
};

}  // namespace dunlin::kernels::cpu::simd
