// SPDX-License-Identifier: Apache-2.0
// How a panel's bytes (packed_layout.h) become dense weights. A unit is kSteps steps of a whole panel, kVectorBytes a
// vector. Of the vector whose bytes start at `at`, Panel::Decode(at, weights) makes the kSteps dense vectors,
// Panel::DecodeStep(at, s) the one of step s; the second is for panels that a tile reads again and again.
// A panel type that widens codes into scratch has kUnits, the vectors that Decode makes.
#pragma once

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

}  // namespace dunlin::kernels::cpu::simd
