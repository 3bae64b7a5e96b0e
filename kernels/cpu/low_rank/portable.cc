// SPDX-License-Identifier: Apache-2.0
// The kernels of low-rank adapters in plain C++ for any x86-64: lanes are loops, which the compiler vectorises.
#include <algorithm>
#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/cpu/low_rank/vector.h"

namespace dunlin::kernels::cpu {
namespace {

struct LowRankLanes {
  struct Floats {
    float lanes[simd::kLanes];
  };
  struct Mask {
    int64_t count;  // leading lanes that are set
  };

  template <typename Function>
  DUNLIN_INLINE Floats Each(const Function& function) {
    Floats out;
    for (int64_t i = 0; i < simd::kLanes; ++i) out.lanes[i] = function(i);
    return out;
  }

  DUNLIN_INLINE Mask FirstLanes(int64_t left) { return {std::min(left, simd::kLanes)}; }
  DUNLIN_INLINE Floats Zero() { return {}; }
  DUNLIN_INLINE Floats Broadcast(float value) {
    return Each([&](int64_t) { return value; });
  }
  DUNLIN_INLINE Floats LoadMasked(const float* from, const Mask& mask) {
    if (mask.count == simd::kLanes) return Each([&](int64_t i) { return from[i]; });
    return Each([&](int64_t i) { return i < mask.count ? from[i] : 0.0F; });
  }
  DUNLIN_INLINE Floats LoadBf16Masked(const std::byte* from, const Mask& mask) {
    return Each([&](int64_t i) {
      uint16_t bits = 0;
      if (i < mask.count) std::memcpy(&bits, from + 2 * i, sizeof(bits));
      return Bf16ToFloat(bits);
    });
  }
  DUNLIN_INLINE void StoreMasked(float* to, const Mask& mask, const Floats& x) { std::copy_n(x.lanes, mask.count, to); }
  DUNLIN_INLINE Floats Add(const Floats& a, const Floats& b) {
    return Each([&](int64_t i) { return a.lanes[i] + b.lanes[i]; });
  }
  DUNLIN_INLINE Floats MulAdd(const Floats& a, const Floats& b, const Floats& c) {
    return Each([&](int64_t i) { return a.lanes[i] * b.lanes[i] + c.lanes[i]; });
  }
  DUNLIN_INLINE float ReduceAdd(Floats x) {
    for (int64_t half = simd::kLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) x.lanes[i] += x.lanes[i + half];
    }
    return x.lanes[0];
  }
};

}  // namespace

constinit const LowRankKernels kPortableLowRank = simd::LowRankKernelsOf<LowRankLanes, 2, 2, 1>();

}  // namespace dunlin::kernels::cpu
