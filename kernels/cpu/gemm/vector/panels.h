// SPDX-License-Identifier: Apache-2.0
// How a panel's bytes (packed_layout.h) become dense weights. A unit is kSteps steps of a whole panel, kVectorBytes a
// vector. Of the vector whose bytes start at `at`, Panel::Decode(at, weights) makes the kSteps dense vectors,
// Panel::DecodeStep(at, s) the one of step s; the second is for panels that a tile reads again and again. Panels
// but DensePanel have Each(at, put), which calls put(s, vector) for the kSteps vectors in turn: for callers with few
// registers left. A panel type that widens codes into scratch has kUnits, the vectors that Decode makes.
#pragma once

#include "kernels/api/code_levels.h"
#include "kernels/cpu/gemm/packed_layout.h"
#include "kernels/cpu/simd/e4m3.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

// Widen of slices that are multiplied as they lie in memory.
struct InPlace {
  static constexpr int kUnits = 0;
};

// Panel::Decode by Panel::Each.
template <typename Panel, typename Floats, int kSteps>
DUNLIN_INLINE void DecodeEach(const std::byte* at, Floats (&weights)[kSteps]) {
  Panel::Each(
      at, [&](int s, Floats vector) __attribute__((always_inline)) { weights[s] = vector; });
}

// The bytes are the steps' vectors themselves: fp32, or bf16 for the dot product.
template <typename V>
struct DensePanel {
  static constexpr int kSteps = 1;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[1]) { weights[0] = V::Load(at); }
  DUNLIN_INLINE typename V::Floats DecodeStep(const std::byte* at, int) { return V::Load(at); }
};

// FP16, widened to floats exactly.
template <typename V>
struct Fp16Panel {
  static constexpr int kSteps = 1;
  static constexpr int64_t kVectorBytes = 32;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[1]) { weights[0] = V::LoadFp16(at); }
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    put(0, V::LoadFp16(at));
  }
  DUNLIN_INLINE typename V::Floats DecodeStep(const std::byte* at, int) { return V::LoadFp16(at); }
};

// BF16 pairs (first K in the low half), widened to floats exactly.
template <typename V>
struct PairPanel {
  using Floats = typename V::Floats;
  using Ints = typename V::Ints;
  static constexpr int kSteps = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, Floats (&weights)[2]) {
    weights[0] = DecodeStep(at, 0);
    weights[1] = DecodeStep(at, 1);
  }
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    put(0, DecodeStep(at, 0));
    put(1, DecodeStep(at, 1));
  }
  DUNLIN_INLINE Floats DecodeStep(const std::byte* at, int s) {
    const Ints pairs = V::AsInts(V::Load(at));  // not LoadInts, with which GCC 12 spills more sums on AVX2
    return s == 0 ? V::FirstOfPairs(pairs) : V::SecondOfPairs(pairs);
  }
};

// E4M3 codes to BF16 pairs, which are dense for the dot product. Codes::Widen: how (simd/e4m3*.h).
template <typename V, typename Codes>
struct CodesToPairs {
  static constexpr int kSteps = 2;
  static constexpr int kUnits = 2;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&pairs)[2]) {
    typename V::Ints first;
    typename V::Ints second;
    Codes::Widen(at, first, second);
    pairs[0] = V::AsFloats(first);
    pairs[1] = V::AsFloats(second);
  }
};

// E4M3 codes to BF16 pairs and on to floats.
template <typename V, typename Codes>
struct CodesToFloats {
  static constexpr int kSteps = 4;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[4]) {
    typename V::Ints first;
    typename V::Ints second;
    Codes::Widen(at, first, second);
    weights[0] = V::FirstOfPairs(first);
    weights[1] = V::SecondOfPairs(first);
    weights[2] = V::FirstOfPairs(second);
    weights[3] = V::SecondOfPairs(second);
  }
};

// Of E4M3ToFloats, which reads them from memory: in registers they would drive out sums.
struct E4M3Constants {
  alignas(64) uint32_t bits[16];
  alignas(64) float scale[16];
  alignas(64) uint8_t twice_nan[64];
};
constexpr E4M3Constants MakeE4M3Constants() {
  E4M3Constants constants{};
  for (uint32_t& bits : constants.bits) bits = 0x87F00000;
  for (float& scale : constants.scale) scale = 0x1p120F;
  for (uint8_t& byte : constants.twice_nan) byte = 0xFE;
  return constants;
}
inline constexpr E4M3Constants kE4M3Constants = MakeE4M3Constants();

// E4M3 codes to floats where registers are few: exponent and mantissa, moved to those of a float, are those of the
// value times 2^-120, also of values below 2^-6, and a product with 2^120 is exact. A vector with NaN, which they are
// not of, takes the other way. A product of subnormal floats takes some ten cycles more on a Zen 4; of weights that
// fill E4M3's range, one code in some thousand is below 2^-6.
template <typename V>
struct E4M3ToFloats {
  static constexpr int kSteps = 4;
  static constexpr int64_t kVectorBytes = 64;
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    const typename V::Ints codes = V::LoadInts(at);
    const E4M3Constants* constants = &kE4M3Constants;
    asm("" : "+r"(constants));
    if (V::Any(V::EqualBytes(V::AddBytes(codes, codes), V::LoadInts(constants->twice_nan)))) [[unlikely]] {
      typename V::Floats weights[4];
      CodesToFloats<V, E4M3ByShuffle<V>>::Decode(at, weights);
#pragma GCC unroll 4
      for (int s = 0; s < 4; ++s) put(s, weights[s]);
      return;
    }
    PutTwo<0>(V::UnpackLowBytes(codes, codes), *constants, put);
    PutTwo<2>(V::UnpackHighBytes(codes, codes), *constants, put);
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[4]) {
    DecodeEach<E4M3ToFloats>(at, weights);
  }

 private:
  // Of codes in the high bytes of words.
  template <int kFirst, typename Put>
  DUNLIN_INLINE void PutTwo(typename V::Ints words, const E4M3Constants& constants, const Put& put) {
    const typename V::Ints moved = V::template ShiftRightSigned16<4>(words);
    const typename V::Ints bits = V::LoadInts(constants.bits);
    const typename V::Floats scale = V::Load(constants.scale);
    put(kFirst, V::Mul(V::AsFloats(V::And(V::template ShiftLeft<16>(moved), bits)), scale));
    put(kFirst + 1, V::Mul(V::AsFloats(V::And(moved, bits)), scale));
  }
};

// Words of codes of 4 bits, eight K of a column, to floats.
template <typename V, bool kSigned>
struct Int4ToFloats {
  static constexpr int kSteps = 8;
  static constexpr int64_t kVectorBytes = 64;
  // The code whose lowest bit is kBit.
  template <int kBit>
  DUNLIN_INLINE typename V::Floats Code(typename V::Ints words) {
    const typename V::Ints moved = V::template ShiftLeft<28 - kBit>(words);
    return V::ToFloats(kSigned ? V::template ShiftRightSigned<28>(moved) : V::template ShiftRight<28>(moved));
  }
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    const typename V::Ints words = V::LoadInts(at);
    put(0, Code<0>(words));
    put(1, Code<16>(words));
    put(2, Code<4>(words));
    put(3, Code<20>(words));
    put(4, Code<8>(words));
    put(5, Code<24>(words));
    put(6, Code<12>(words));
    put(7, Code<28>(words));
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[8]) {
    DecodeEach<Int4ToFloats>(at, weights);
  }
};

// A table's integers, for a lookup of bytes in each 16 of them.
struct LevelBytes {
  alignas(64) int8_t values[64];
};
constexpr LevelBytes MakeLevelBytes(CodeLevels levels) {
  LevelBytes bytes{};
  for (int i = 0; i < 64; ++i) bytes.values[i] = RowOf(levels).values[i % 16];
  return bytes;
}
template <CodeLevels kLevels>
inline constexpr LevelBytes kLevelBytes = MakeLevelBytes(kLevels);

// The integers of the low four bits of each byte.
template <typename V, CodeLevels kLevels>
DUNLIN_INLINE typename V::Ints LevelsOfBytes(typename V::Ints words) {
  return V::ShuffleBytes(V::LoadInts(kLevelBytes<kLevels>.values), V::And(words, V::BroadcastBytes(0xF)));
}

// Words of 4-bit codes of a table, eight K of a column, to floats.
template <typename V, CodeLevels kLevels>
struct LevelsToFloats {
  static constexpr int kSteps = 8;
  static constexpr int64_t kVectorBytes = 64;
  // Of byte kByte of each word.
  template <int kByte>
  DUNLIN_INLINE typename V::Floats Integer(typename V::Ints words) {
    return V::ToFloats(V::template ShiftRightSigned<24>(V::template ShiftLeft<24 - 8 * kByte>(words)));
  }
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    const typename V::Ints words = V::LoadInts(at);
    const typename V::Ints low = LevelsOfBytes<V, kLevels>(words);  // bytes of K 0, 4, 1, 5
    put(0, Integer<0>(low));
    put(1, Integer<2>(low));
    const typename V::Ints high = LevelsOfBytes<V, kLevels>(V::template ShiftRight<4>(words));  // K 2, 6, 3, 7
    put(2, Integer<0>(high));
    put(3, Integer<2>(high));
    put(4, Integer<1>(low));
    put(5, Integer<3>(low));
    put(6, Integer<1>(high));
    put(7, Integer<3>(high));
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[8]) {
    DecodeEach<LevelsToFloats>(at, weights);
  }
};

// Of three words of codes of 6 bits, the four codes whose bits are left over, where the other words have theirs.
template <typename V>
DUNLIN_INLINE typename V::Ints SixBitRest(typename V::Ints first, typename V::Ints second, typename V::Ints third) {
  typename V::Ints rest = V::And(V::template ShiftRight<12>(first), V::BroadcastInts(0x000F000F));
  rest = V::OrAnd(rest, V::template ShiftRight<8>(second), V::BroadcastInts(0x00F000F0));
  return V::OrAnd(rest, V::template ShiftRight<4>(third), V::BroadcastInts(0x0F000F00));
}

// Codes of 6 bits, sixteen K of a column, to floats.
template <typename V>
struct Int6ToFloats {
  static constexpr int kSteps = 16;
  static constexpr int64_t kVectorBytes = 3 * kSixBitWordStride;
  // The signed code whose lowest bit is kBit.
  template <int kBit>
  DUNLIN_INLINE typename V::Floats Code(typename V::Ints words) {
    return V::ToFloats(V::template ShiftRightSigned<26>(V::template ShiftLeft<26 - kBit>(words)));
  }
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    const typename V::Ints first = V::LoadInts(at);
    const typename V::Ints second = V::LoadInts(at + kSixBitWordStride);
    const typename V::Ints third = V::LoadInts(at + 2 * kSixBitWordStride);
    PutFour<0>(first, put);
    PutFour<4>(second, put);
    PutFour<8>(third, put);
    PutFour<12>(SixBitRest<V>(first, second, third), put);
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[16]) {
    DecodeEach<Int6ToFloats>(at, weights);
  }

 private:
  template <int kFirst, typename Put>
  DUNLIN_INLINE void PutFour(typename V::Ints words, const Put& put) {
    put(kFirst, Code<0>(words));
    put(kFirst + 1, Code<16>(words));
    put(kFirst + 2, Code<6>(words));
    put(kFirst + 3, Code<22>(words));
  }
};

// INT8 codes to floats.
template <typename V>
struct Int8ToFloats {
  static constexpr int kSteps = 4;
  static constexpr int64_t kVectorBytes = 64;
  template <typename Put>
  DUNLIN_INLINE void Each(const std::byte* at, const Put& put) {
    const typename V::Ints codes = V::LoadInts(at);
    PutTwo<0>(V::UnpackLowBytes(V::BroadcastInts(0), codes), put);
    PutTwo<2>(V::UnpackHighBytes(V::BroadcastInts(0), codes), put);
  }
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[4]) {
    DecodeEach<Int8ToFloats>(at, weights);
  }

 private:
  // Of codes in the high bytes of words.
  template <int kFirst, typename Put>
  DUNLIN_INLINE void PutTwo(typename V::Ints words, const Put& put) {
    put(kFirst, V::ToFloats(V::template ShiftRightSigned<24>(V::template ShiftLeft<16>(words))));
    put(kFirst + 1, V::ToFloats(V::template ShiftRightSigned<24>(words)));
  }
};

// A panel type of another lanes type.
template <typename Panel, typename V>
struct PanelOf;
template <template <typename> typename Panel, typename From, typename V>
struct PanelOf<Panel<From>, V> {
  using Type = Panel<V>;
};
template <template <typename, bool> typename Panel, typename From, bool kSigned, typename V>
struct PanelOf<Panel<From, kSigned>, V> {
  using Type = Panel<V, kSigned>;
};
template <template <typename, CodeLevels> typename Panel, typename From, CodeLevels kLevels, typename V>
struct PanelOf<Panel<From, kLevels>, V> {
  using Type = Panel<V, kLevels>;
};

// Small integers, which BF16 holds exactly, to BF16 pairs by way of floats.
template <typename V, typename ToFloats>
struct IntegersToPairs {
  static constexpr int kSteps = ToFloats::kSteps / 2;
  static constexpr int kUnits = kSteps;
  static constexpr int64_t kVectorBytes = ToFloats::kVectorBytes;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&pairs)[kSteps]) {
    typename V::Floats weights[ToFloats::kSteps];
    ToFloats::Decode(at, weights);
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s) {
      const typename V::Ints first = V::template ShiftRight<16>(V::AsInts(weights[2 * s]));
      pairs[s] = V::AsFloats(V::Or(first, V::AsInts(weights[2 * s + 1])));
    }
  }
};

}  // namespace dunlin::kernels::cpu::simd
