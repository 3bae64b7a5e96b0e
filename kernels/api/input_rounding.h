// SPDX-License-Identifier: Apache-2.0
// Rounding of a group of a product's inputs to 8 bits (PackedWeight::int8_inputs): value = scale * code, code in
// [-127, 127], scale = amax / 127. The scalar code that tests and benches hold kernels to; any thread.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

namespace dunlin::kernels {

inline constexpr float kLargestInputCode = 127.0F;
// A group whose magnitudes are all below it is zero: 127 / amax would overflow for the smallest ones.
inline constexpr float kLeastInput = 0x1p-100F;

// Returns the scale: 0 for a group that is zero, NaN where a value is not finite; the codes are 0 then.
inline float RoundInputGroup(const float* values, int64_t count, int8_t* codes) {
  float largest = 0.0F;
  bool finite = true;
  for (int64_t i = 0; i < count; ++i) {
    largest = std::max(largest, std::fabs(values[i]));
    finite = finite && std::isfinite(values[i]);
  }
  const bool zero = !finite || largest < kLeastInput;
  const float factor = zero ? 0.0F : kLargestInputCode / largest;
  for (int64_t i = 0; i < count; ++i) {
    codes[i] = zero ? int8_t{0} : static_cast<int8_t>(std::nearbyint(values[i] * factor));
  }
  if (!finite) return std::numeric_limits<float>::quiet_NaN();
  return zero ? 0.0F : largest / kLargestInputCode;
}

}  // namespace dunlin::kernels
