// SPDX-License-Identifier: Apache-2.0
// Lanes (lanes.h) of FP32 in plain C++ for any processor: loops, which the compiler vectorises. What the portable
// variants of recurrent layers and of low-rank adapters use; ReduceAdd adds halves, down to one lane.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {
namespace {

struct LoopLanes {
  struct Floats {
    float lanes[kLanes];
  };
  struct Mask {
    int64_t count;  // leading lanes that are set
  };

  template <typename Function>
  DUNLIN_INLINE Floats Each(const Function& function) {
    Floats out;
    for (int64_t i = 0; i < kLanes; ++i) out.lanes[i] = function(i);
    return out;
  }

  DUNLIN_INLINE Mask FirstLanes(int64_t left) { return {std::min(left, kLanes)}; }
  DUNLIN_INLINE Floats Zero() { return {}; }
  DUNLIN_INLINE Floats Broadcast(float value) {
    return Each([&](int64_t) { return value; });
  }
  DUNLIN_INLINE Floats Load(const float* from) {
    return Each([&](int64_t i) { return from[i]; });
  }
  DUNLIN_INLINE Floats LoadMasked(const float* from, const Mask& mask) {
    if (mask.count == kLanes) return Load(from);
    return Each([&](int64_t i) { return i < mask.count ? from[i] : 0.0F; });
  }
  DUNLIN_INLINE void Store(float* to, const Floats& x) { std::copy_n(x.lanes, kLanes, to); }
  DUNLIN_INLINE void StoreMasked(float* to, const Mask& mask, const Floats& x) { std::copy_n(x.lanes, mask.count, to); }
  DUNLIN_INLINE Floats Add(const Floats& a, const Floats& b) {
    return Each([&](int64_t i) { return a.lanes[i] + b.lanes[i]; });
  }
  DUNLIN_INLINE Floats Sub(const Floats& a, const Floats& b) {
    return Each([&](int64_t i) { return a.lanes[i] - b.lanes[i]; });
  }
  DUNLIN_INLINE Floats Mul(const Floats& a, const Floats& b) {
    return Each([&](int64_t i) { return a.lanes[i] * b.lanes[i]; });
  }
  DUNLIN_INLINE Floats MulAdd(const Floats& a, const Floats& b, const Floats& c) {
    return Each([&](int64_t i) { return a.lanes[i] * b.lanes[i] + c.lanes[i]; });
  }
  DUNLIN_INLINE float ReduceAdd(Floats x) {
    for (int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (int64_t i = 0; i < half; ++i) x.lanes[i] += x.lanes[i + half];
    }
    return x.lanes[0];
  }
};

}  // namespace
}  // namespace dunlin::kernels::cpu::simd
