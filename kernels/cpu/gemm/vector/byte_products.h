// SPDX-License-Identifier: Apache-2.0
// Products of integer codes with inputs that are rounded to 8 bits: a step is four K, a byte each, of a row and of each
// column; its sums are 32-bit integers, exact in any order. Panels make bytes of codes. To need few operations for
// that, they do not keep the order of K inside 8 or 16 of them: inputs are put in the same order when they are rounded.
#pragma once

#include <bit>
#include <cstring>
#include <limits>

#include "kernels/api/input_rounding.h"
#include "kernels/cpu/gemm/vector/block.h"

namespace dunlin::kernels::cpu::simd {

// Input i of sixteen is element order[i] of them.
struct InputOrder {
  uint8_t order[16];
};
inline constexpr InputOrder kOrderOf4Bits = {{0, 4, 1, 5, 2, 6, 3, 7, 8, 12, 9, 13, 10, 14, 11, 15}};
inline constexpr InputOrder kOrderOf6Bits = {{0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15}};
inline constexpr InputOrder kOrderOf8Bits = {{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}};

constexpr const InputOrder& OrderOf(int32_t code_bits) {
  if (code_bits == 4) return kOrderOf4Bits;
  return code_bits == 6 ? kOrderOf6Bits : kOrderOf8Bits;
}

// Words of codes of 4 bits, eight K of a column, to unsigned bytes.
template <typename V, bool kSigned>
struct Int4ToBytes {
  static constexpr int kSteps = 2;
  static constexpr int kUnits = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE typename V::Floats LowBits(typename V::Ints words) {
    const typename V::Ints mask = V::BroadcastBytes(0xF);
    return V::AsFloats(kSigned ? V::XorAnd(V::BroadcastBytes(8), words, mask) : V::And(words, mask));
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&bytes)[2]) {
    const typename V::Ints words = V::AsInts(V::Load(at));
    bytes[0] = LowBits(words);
    bytes[1] = LowBits(V::template ShiftRight<4>(words));
  }
};

// Words of 4-bit codes of a table, eight K of a column, to signed bytes, or to unsigned ones.
template <typename V, CodeLevels kLevels, bool kSigned>
struct LevelsToBytes {
  static constexpr int kSteps = 2;
  static constexpr int kUnits = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE typename V::Floats LowBits(typename V::Ints words) {
    const typename V::Ints integers = LevelsOfBytes<V, kLevels>(words);
    if constexpr (kSigned) return V::AsFloats(integers);
    return V::AsFloats(V::XorAnd(integers, V::BroadcastBytes(0x80), V::BroadcastBytes(0x80)));
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&bytes)[2]) {
    const typename V::Ints words = V::AsInts(V::Load(at));
    bytes[0] = LowBits(words);
    bytes[1] = LowBits(V::template ShiftRight<4>(words));
  }
};

// Codes of 6 bits, sixteen K of a column, to unsigned bytes.
template <typename V>
struct Int6ToBytes {
  using Ints = typename V::Ints;
  static constexpr int kSteps = 4;
  static constexpr int kUnits = 4;
  static constexpr int64_t kVectorBytes = 3 * kSixBitWordStride;
  // Of the lowest 12 bits of the halves.
  DUNLIN_INLINE typename V::Floats Bytes(Ints words) {
    const Ints low = V::XorAnd(V::BroadcastBytes(0x20), words, V::BroadcastInts(0x003F003F));
    return V::AsFloats(V::XorAnd(low, V::template ShiftLeft<2>(words), V::BroadcastInts(0x3F003F00)));
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&bytes)[4]) {
    const Ints first = V::AsInts(V::Load(at));
    const Ints second = V::AsInts(V::Load(at + kSixBitWordStride));
    const Ints third = V::AsInts(V::Load(at + 2 * kSixBitWordStride));
    bytes[0] = Bytes(first);
    bytes[1] = Bytes(second);
    bytes[2] = Bytes(third);
    bytes[3] = Bytes(SixBitRest<V>(first, second, third));
  }
};

// Codes of 8 bits to signed bytes of four K of a column, or to unsigned ones.
template <typename V, bool kSigned>
struct Int8ToBytes {
  static constexpr int kSteps = 1;
  static constexpr int kUnits = 1;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&bytes)[1]) { bytes[0] = DecodeStep(at, 0); }
  DUNLIN_INLINE typename V::Floats DecodeStep(const std::byte* at, int) {
    alignas(64) static constexpr uint8_t kColumns[64] = {
        0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15,
        0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15, 0, 1, 8, 9, 2, 3, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15};
    const typename V::Ints codes = V::ShuffleBytes(V::AsInts(V::Load(at)), V::LoadInts(kColumns));
    if constexpr (kSigned) return V::AsFloats(codes);
    return V::AsFloats(V::XorAnd(codes, V::BroadcastBytes(0x80), V::BroadcastBytes(0x80)));
  }
};

// How products without an instruction for four bytes are summed. Pairs of products have 16 bits; unsigned codes of 4
// bits and inputs within 127 leave room for the eight steps of 32 K in them: 8 * 2 * 15 * 127 < 2^15. So do two steps
// of codes of 6 bits: 2 * 2 * 63 * 127 < 2^15.
template <typename V, int32_t kCodeBits, bool kInWords>
struct BytePairs {
  static constexpr bool kStarts = kCodeBits != 8 && !kInWords;
  static constexpr bool kAddsTwo = kCodeBits == 6 && !kInWords;
  // Two steps, where kAddsTwo.
  DUNLIN_INLINE typename V::Floats AddTwo(typename V::Floats sum, typename V::Factor a, typename V::Floats w,
                                          typename V::Factor next_a, typename V::Floats next_w) {
    const typename V::Ints pairs = V::MulBytePairs(V::AsInts(w), V::AsInts(V::OfFactor(a)));
    const typename V::Ints next_pairs = V::MulBytePairs(V::AsInts(next_w), V::AsInts(V::OfFactor(next_a)));
    const typename V::Ints both = V::AccumulateWords(pairs, next_pairs);
    return V::AsFloats(V::AccumulateInts(V::AsInts(sum), V::SumWordPairs(both)));
  }
  DUNLIN_INLINE typename V::Floats Add(typename V::Floats sum, typename V::Factor a, typename V::Floats w) {
    const typename V::Ints inputs = V::AsInts(V::OfFactor(a));
    const typename V::Ints codes = V::AsInts(w);
    const typename V::Ints pairs =
        kCodeBits == 8 ? V::MulSignedBytePairs(codes, inputs) : V::MulBytePairs(codes, inputs);
    if constexpr (kInWords) return V::AsFloats(V::AccumulateWords(V::AsInts(sum), pairs));
    return V::AsFloats(V::AccumulateInts(V::AsInts(sum), V::SumWordPairs(pairs)));
  }
  DUNLIN_INLINE typename V::Ints Integers(typename V::Floats sum, int32_t start) {
    if constexpr (!kInWords) return V::AsInts(sum);
    return V::AddInts(V::SumWordPairs(V::AsInts(sum)), V::BroadcastInts(start));
  }
};

// Which bytes the codes of a format become.
template <typename V, WeightFormat kFormat, bool kSignedBytes>
constexpr auto BytesOf() {
  if constexpr (Traits(kFormat).levels != CodeLevels::kIntegers) {
    return LevelsToBytes<V, Traits(kFormat).levels, kSignedBytes>();
  } else if constexpr (Traits(kFormat).code_bits == 4) {
    return Int4ToBytes<V, UnsignedBias(kFormat) != 0>();
  } else if constexpr (Traits(kFormat).code_bits == 6) {
    return Int6ToBytes<V>();
  } else {
    return Int8ToBytes<V, kSignedBytes>();
  }
}

// kSignedBytes: whether Products take integers of 8 bits as they are.
template <typename V, WeightFormat kFormat, typename Products, bool kSignedBytes>
struct GroupedBytes {
  using Multiply = Products;
  using Panel = decltype(BytesOf<V, kFormat, kSignedBytes>());
  using SlicePanel = DensePanel<V>;
  using Widen = Panel;
  using Scales = ScalesOf<V, kFormat>;
  static constexpr int64_t kStepDepth = 4;
  static constexpr int kSmallMRows = Traits(kFormat).code_bits == 6 ? 6 : 8;  // four decoded vectors take registers
  static constexpr int kMaxSmallM = 0;
  static constexpr int kMaxBlockScaledM = 0;
  static constexpr Locality kLocality = kIntoL1;
  static constexpr bool kGrouped = true;
  static constexpr bool kIntegers = true;
  static constexpr bool kBiased = !kSignedBytes || (IntegerBits(kFormat) != 8 && UnsignedBias(kFormat) != 0);
};

// As RoundInputGroup: the scale of a group whose magnitudes have the largest bits `bits`, and what its values are
// multiplied with, 0 where there is no scale.
struct InputScale {
  float scale;
  float factor;
};
DUNLIN_INLINE InputScale ScaleOfMagnitude(int bits) {
  const auto largest = std::bit_cast<float>(bits);
  if (!(largest <= std::numeric_limits<float>::max())) return {std::numeric_limits<float>::quiet_NaN(), 0.0F};
  if (largest < kLeastInput) return {0.0F, 0.0F};
  return {largest / kLargestInputCode, kLargestInputCode / largest};
}

template <typename V, typename Element>
DUNLIN_INLINE typename V::Floats LoadInputs(const Element* from) {
  if constexpr (sizeof(Element) == sizeof(float)) return V::Load(from);
  return V::LoadBf16Masked(from, V::FirstLanes(kLanes));
}

// RoundInputsKernel. Element: of the variant's BF16 rows; bias: what its kernels add to the codes of the format.
template <typename V, typename Element>
static void RoundInputRow(const std::byte* row, int64_t columns, WeightFormat format, int32_t bias, std::byte* coded) {
  const InputOrder& order = OrderOf(Traits(format).code_bits);
  const int64_t group = Traits(format).group;
  const auto* values = reinterpret_cast<const Element*>(row);
  auto* groups = reinterpret_cast<InputGroup*>(coded + InputGroupOffset(columns));
  for (int64_t first = 0; first < columns; first += group, ++groups) {
    // A row has values, or zeros, up to a multiple of sixteen.
    const bool two = group > kLanes && columns - first > kLanes;
    const typename V::Floats low = LoadInputs<V>(values + first);
    const typename V::Floats high = two ? LoadInputs<V>(values + first + kLanes) : V::Zero();
    const InputScale scale = ScaleOfMagnitude(V::ReduceMaxInts(V::MaxInts(Magnitude<V>(low), Magnitude<V>(high))));
    const typename V::Floats factor = V::Broadcast(scale.factor);
    const typename V::Floats low_codes = V::RoundToInteger(V::Mul(low, factor));
    const typename V::Floats high_codes = V::RoundToInteger(V::Mul(high, factor));
    V::StoreLow8InOrder(coded + first, order.order, V::ToInts(low_codes));
    if (two) V::StoreLow8InOrder(coded + first + kLanes, order.order, V::ToInts(high_codes));
    const float sum = V::ReduceAdd(V::Add(low_codes, high_codes));
    // A sum that is NaN has a factor of 0.
    *groups = {scale.scale, scale.scale * sum, scale.factor == 0.0F ? 0 : -bias * static_cast<int32_t>(sum)};
  }
  const auto written = static_cast<size_t>(RoundUp(columns, kLanes));
  std::memset(coded + written, 0, InputGroupOffset(columns) - written);
}

// Of the variants without an instruction for four bytes (MakeInt8Kernels).
template <typename V>
struct PairedProducts {
  template <WeightFormat kFormat>
  static void Gemm(const GemmBlock& block) {
    constexpr int32_t kCodeBits = IntegerBits(kFormat);
    using Products = BytePairs<V, kCodeBits, kCodeBits == 4>;
    VectorGemm<V, GroupedBytes<V, kFormat, Products, /*kSignedBytes=*/true>>::Run(block);
  }
  static void Round(const std::byte* row, int64_t columns, WeightFormat format, std::byte* coded) {
    const int32_t bias = IntegerBits(format) == 8 ? 0 : UnsignedBias(format);
    RoundInputRow<V, float>(row, columns, format, bias, coded);
  }
};

}  // namespace dunlin::kernels::cpu::simd
