// What the vector variants share: templates over a policy V, sixteen floats at a time. Each variant's translation units
// instantiate them with a policy of their own that lies in an anonymous namespace, so that no instantiation is shared
// between processors.
//
// V: Floats and Ints (sixteen lanes of 32 bits), Mask (of the lanes that exist), its functions under the instructions'
// own words, the register tile: kTileRows x kTileVectors sums, and kAsksL2: whether memory is asked for lines into L2.
#pragma once

#include <cstddef>
#include <cstdint>

#define DUNLIN_LANE static inline __attribute__((always_inline))

namespace dunlin::kernels::cpu::vector {

inline constexpr int64_t kLanes = 16;

// body(first, mask) over n elements, 16 at a time.
template <typename V, typename Body>
DUNLIN_LANE void ForEachVector(int64_t n, const Body& body) {
  for (int64_t i = 0; i < n; i += kLanes) body(i, V::MaskOf(n - i));
}

template <typename V>
DUNLIN_LANE typename V::Ints Magnitude(typename V::Floats value) {
  return V::And(V::Bits(value), V::AllInts(0x7FFFFFFF));
}

}  // namespace dunlin::kernels::cpu::vector
