// SPDX-License-Identifier: Apache-2.0
// e^x for x <= 0 in plain arithmetic: the same bits with any libm, and loops over it vectorise.
// Source: Cody & Waite 1980, chapter 6 (range reduction by a split ln 2); the polynomial is Cephes expf's.
#pragma once

#include <bit>
#include <cstdint>

namespace dunlin::kernels {

// Within 2 ulp of e^x; 0 below -87.3 (where FP32 stops being normal), -infinity included. REQUIRES: x <= 0, not NaN.
constexpr float ExpNonPositive(float x) {
  constexpr float kLowest = -87.3F;
  constexpr float kLog2E = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRoundToInt = 12582912.0F;  // 1.5 * 2^23: adding it rounds to the nearest integer
  const float clamped = x < kLowest ? kLowest : x;
  const float shifted = clamped * kLog2E + kRoundToInt;
  const float n = shifted - kRoundToInt;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  p = p * r * r + r + 1.0F;
  const int32_t exponent = std::bit_cast<int32_t>(shifted) - std::bit_cast<int32_t>(kRoundToInt);
  const float scale = std::bit_cast<float>((exponent + 127) << 23);
  return x < kLowest ? 0.0F : p * scale;
}

}  // namespace dunlin::kernels
