// SPDX-License-Identifier: Apache-2.0
// The SIMD layer: vector code is written once, as templates over a lanes type V, sixteen 32-bit lanes at a time.
// avx2::Lanes (lanes_avx2.h) and avx512::Lanes (lanes_avx512.h) are such types. Each translation unit of a variant
// instantiates the templates with its own copy of the type, which lies in an anonymous namespace: no instantiation is
// shared between files that are compiled for different processors.
//
// V provides Floats and Ints (sixteen lanes), Mask (one bit per lane), kNumVectors, and the functions below them; every
// V has the same functions with the same meaning, documented in lanes_avx512.h.
#pragma once

#include <cstddef>
#include <cstdint>

// Always inlined: no out-of-line copy of vector code leaves the translation unit that has the flags for it.
#define DUNLIN_INLINE static inline __attribute__((always_inline))

namespace dunlin::kernels::cpu::simd {

inline constexpr int64_t kLanes = 16;

// Calls body(first, mask) for n elements, 16 at a time; mask has the lanes that exist.
template <typename V, typename Body>
DUNLIN_INLINE void ForEachVector(int64_t n, const Body& body) {
  for (int64_t i = 0; i < n; i += kLanes) body(i, V::FirstLanes(n - i));
}

template <typename V>
DUNLIN_INLINE typename V::Ints Magnitude(typename V::Floats value) {
  return V::And(V::AsInts(value), V::BroadcastInts(0x7FFFFFFF));
}

}  // namespace dunlin::kernels::cpu::simd
