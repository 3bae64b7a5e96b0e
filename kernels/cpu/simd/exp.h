// SPDX-License-Identifier: Apache-2.0
// exp of sixteen floats, within about 1.5 units in the last place; 0 below -104, infinity above 88.8, NaN stays NaN.
// Source: Cody & Waite reduction by ln 2 in two parts, Cephes expf polynomial.
#pragma once

#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

template <typename V>
DUNLIN_INLINE typename V::Floats Exp(typename V::Floats x) {
  using Floats = typename V::Floats;
  // The bounds keep 2^n inside what TimesPowerOf2 takes; the second operand of Min and Max is what a NaN lane returns.
  const Floats bounded = V::Min(V::Broadcast(90.0F), V::Max(V::Broadcast(-105.0F), x));
  const Floats n = V::RoundToInteger(V::Mul(bounded, V::Broadcast(1.44269504F)));
  Floats r = V::NegMulAdd(n, V::Broadcast(0.693359375F), bounded);
  r = V::NegMulAdd(n, V::Broadcast(-2.12194440e-4F), r);
  Floats p = V::Broadcast(1.9875691500e-4F);
  p = V::MulAdd(p, r, V::Broadcast(1.3981999507e-3F));
  p = V::MulAdd(p, r, V::Broadcast(8.3334519073e-3F));
  p = V::MulAdd(p, r, V::Broadcast(4.1665795894e-2F));
  p = V::MulAdd(p, r, V::Broadcast(1.6666665459e-1F));
  p = V::MulAdd(p, r, V::Broadcast(5.0000001201e-1F));
  p = V::Add(V::MulAdd(p, V::Mul(r, r), r), V::Broadcast(1.0F));
  return V::TimesPowerOf2(p, n);
}

}  // namespace dunlin::kernels::cpu::simd
