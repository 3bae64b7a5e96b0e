// SPDX-License-Identifier: Apache-2.0
// Scales of E4M3 rows on the device, bit-identical to the CPU's.
// Source: kernels/shared/fp8_scale.h; Transformer Engine, common/recipe.
#pragma once

#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

struct Fp8Scale {
  float scale;   // value = code * scale
  float factor;  // code = round(value * factor)
};

inline constexpr float kFloatMax = 3.402823466e+38F;
inline constexpr uint32_t kInfinityBits = 0x7F800000U;

// Scale that maps the row's largest magnitude to 448. A row of zeros, or of magnitudes so small that the scale would be
// subnormal, gets scale 1 and codes 0.
DUNLIN_HD inline Fp8Scale ScaleOfRow(uint32_t magnitude_bits) {
  constexpr float kSmallest = kE4M3Max * 0x1p-126F;
  const float largest = BitsToFloat(magnitude_bits);
  if (largest < kSmallest) return {1.0F, 1.0F};
  const float scale = largest / kE4M3Max;
  return {scale, 1.0F / scale};
}

// A given scale > 0. The factor of a subnormal scale is clamped: infinity times 0 would give NaN.
DUNLIN_HD inline Fp8Scale GivenScale(float scale) {
  const float factor = 1.0F / scale;
  return {scale, factor < kFloatMax ? factor : kFloatMax};
}

// From the largest magnitude over all rows of a call: the scale that FactorFromAmax gives.
DUNLIN_HD inline Fp8Scale CurrentScale(uint32_t magnitude_bits) {
  if (magnitude_bits >= kInfinityBits || magnitude_bits == 0) return GivenScale(1.0F);
  const float factor = kE4M3Max / BitsToFloat(magnitude_bits);
  return GivenScale(1.0F / (factor < kFloatMax ? factor : kFloatMax));
}

// The magnitude, at most Activation::amax_limit; infinity and NaN stay, so that they are not hidden.
DUNLIN_HD inline uint32_t LimitMagnitude(uint32_t magnitude_bits, float limit) {
  const uint32_t limit_bits = FloatBits(limit);
  return magnitude_bits < kInfinityBits && magnitude_bits > limit_bits ? limit_bits : magnitude_bits;
}

}  // namespace dunlin::kernels::cuda
