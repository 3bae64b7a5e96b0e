// SPDX-License-Identifier: Apache-2.0
// How a panel's bytes (packed_layout.h) become dense weights. A unit is kSteps steps of a whole panel, kVectorBytes a
// vector. Of the vector whose bytes start at `at`, Panel::Decode(at, weights) makes the kSteps dense vectors,
// Panel::DecodeStep(at, s) the one of step s; the second is for panels that a tile reads again and again.
// A panel type that widens codes into scratch has kUnits, the vectors that Decode makes.
#pragma once

#include "kernels/cpu/gemm/packed_layout.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

// Widen of slices that are multiplied as they lie in memory.
struct InPlace {
  static constexpr int kUnits = 0;
};

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
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[8]) {
    const typename V::Ints words = V::LoadInts(at);
    weights[0] = Code<0>(words);
    weights[1] = Code<16>(words);
    weights[2] = Code<4>(words);
    weights[3] = Code<20>(words);
    weights[4] = Code<8>(words);
    weights[5] = Code<24>(words);
    weights[6] = Code<12>(words);
    weights[7] = Code<28>(words);
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
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[16]) {
    const typename V::Ints first = V::LoadInts(at);
    const typename V::Ints second = V::LoadInts(at + kSixBitWordStride);
    const typename V::Ints third = V::LoadInts(at + 2 * kSixBitWordStride);
    DecodeFour<0>(first, weights);
    DecodeFour<4>(second, weights);
    DecodeFour<8>(third, weights);
    DecodeFour<12>(SixBitRest<V>(first, second, third), weights);
  }

 private:
  template <int kFirst>
  DUNLIN_INLINE void DecodeFour(typename V::Ints words, typename V::Floats (&weights)[16]) {
    weights[kFirst] = Code<0>(words);
    weights[kFirst + 1] = Code<16>(words);
    weights[kFirst + 2] = Code<6>(words);
    weights[kFirst + 3] = Code<22>(words);
  }
};

// INT8 codes to floats.
template <typename V>
struct Int8ToFloats {
  static constexpr int kSteps = 4;
  static constexpr int64_t kVectorBytes = 64;
  DUNLIN_INLINE void Decode(const std::byte* at, typename V::Floats (&weights)[4]) {
    const typename V::Ints codes = V::LoadInts(at);
    const typename V::Ints first = V::UnpackLowBytes(V::BroadcastInts(0), codes);  // each code in a word's high byte
    const typename V::Ints second = V::UnpackHighBytes(V::BroadcastInts(0), codes);
    weights[0] = V::ToFloats(V::template ShiftRightSigned<24>(V::template ShiftLeft<16>(first)));
    weights[1] = V::ToFloats(V::template ShiftRightSigned<24>(first));
    weights[2] = V::ToFloats(V::template ShiftRightSigned<24>(V::template ShiftLeft<16>(second)));
    weights[3] = V::ToFloats(V::template ShiftRightSigned<24>(second));
  }
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
