// exp of sixteen floats, within about 1.5 units in the last place; 0 below -104, infinity above 88.8, NaN stays NaN.
// Source: Cody & Waite reduction by ln 2 in two parts, Cephes expf polynomial.
#pragma once

#include "kernels/cpu/vector/lanes.h"

namespace dunlin::kernels::cpu::vector {

template <typename V>
DUNLIN_LANE typename V::Floats Exp(typename V::Floats x) {
  using Floats = typename V::Floats;
  // The bounds keep 2^n inside what TimesPowerOf2 takes; the second operand of Min and Max is what a NaN lane returns.
  const Floats bounded = V::Min(V::All(90.0F), V::Max(V::All(-105.0F), x));
  const Floats n = V::RoundToWhole(V::Mul(bounded, V::All(1.44269504F)));
  Floats r = V::NegMulAdd(n, V::All(0.693359375F), bounded);
  r = V::NegMulAdd(n, V::All(-2.12194440e-4F), r);
  Floats p = V::All(1.9875691500e-4F);
  p = V::MulAdd(p, r, V::All(1.3981999507e-3F));
  p = V::MulAdd(p, r, V::All(8.3334519073e-3F));
  p = V::MulAdd(p, r, V::All(4.1665795894e-2F));
  p = V::MulAdd(p, r, V::All(1.6666665459e-1F));
  p = V::MulAdd(p, r, V::All(5.0000001201e-1F));
  p = V::Add(V::MulAdd(p, V::Mul(r, r), r), V::All(1.0F));
  return V::TimesPowerOf2(p, n);
}

}  // namespace dunlin::kernels::cpu::vector
