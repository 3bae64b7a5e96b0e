// SPDX-License-Identifier: Apache-2.0
// The scale of one FP8 row: its largest magnitude maps to 448. Shared by weights and activations.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <limits>

#include "kernels/api/float_formats.h"

namespace dunlin::kernels::cpu {

struct Fp8Scale {
  float scale;   // value = code * scale
  float factor;  // code = round(value * factor); 1 / scale
};

// max_magnitude_bits: KernelTable::max_magnitude_bits of the row. A row of zeros, or of numbers so small that the
// scale would be subnormal, gets scale 1 and codes of 0. A row with NaN or infinity gets a scale that propagates it.
inline Fp8Scale ScaleOfRow(uint32_t max_magnitude_bits) {
  constexpr float kSmallest = kE4M3Max * 0x1p-126F;
  const float largest = std::bit_cast<float>(max_magnitude_bits);
  if (largest < kSmallest) return {1.0F, 1.0F};
  const float scale = largest / kE4M3Max;
  return {scale, 1.0F / scale};
}

// For a given scale > 0. The factor of a subnormal scale would overflow, and then make NaN of 0.
inline Fp8Scale GivenScale(float scale) {
  return {scale, std::min(1.0F / scale, std::numeric_limits<float>::max())};
}

// The smaller of a magnitude and Activation::amax_limit; infinity and NaN are kept, so that they are not hidden.
inline uint32_t LimitMagnitude(uint32_t max_magnitude_bits, float limit) {
  constexpr uint32_t kInfinity = 0x7F800000U;
  const auto limit_bits = std::bit_cast<uint32_t>(limit);
  return max_magnitude_bits < kInfinity && max_magnitude_bits > limit_bits ? limit_bits : max_magnitude_bits;
}

}  // namespace dunlin::kernels::cpu
