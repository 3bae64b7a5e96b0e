// SPDX-License-Identifier: Apache-2.0
// Rounding of a group of weights to INT8 or INT4 codes, and the 16-bit word that holds a group's scale and zero point.
// Scalar code that every device shares; any thread.
//
// INT8: value = scale * code, code in [-127, 127].
// INT4: value = scale * (code - zero point), code and zero point in [-8, 7]. The better of two choices by squared
// error: symmetric, where the largest magnitude takes the end of the codes that reaches further and the zero point is 0
// or -1, and asymmetric, where the codes span the smallest range that holds the values and 0.
// A scale word is a float without a sign, 6 bits of exponent and 10 of fraction, from 2^-48 to 2^16. With zero points
// the low 4 bits of the fraction are the zero point: of the scales with these bits the nearest is taken, within 0.8%,
// and codes are rounded with that scale. Zeros are exact; NaN and infinity become finite.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/api/dtype.h"

namespace dunlin::kernels {

inline constexpr int32_t kWeightGroup = 32;  // elements of K of a group, the last of a row may be shorter
static_assert(Traits(WeightFormat::kInt8).group == kWeightGroup && Traits(WeightFormat::kInt4).group == kWeightGroup);

inline constexpr int32_t kScaleWordShift = 13;  // from a word to the bits of a float
inline constexpr int32_t kScaleWordBias = (127 - 48) << 23;

constexpr float ScaleOfWord(uint16_t word) {
  return std::bit_cast<float>((static_cast<int32_t>(word) << kScaleWordShift) + kScaleWordBias);
}
// The zero point in a word's low 4 bits, signed.
constexpr int32_t ZeroPointOfWord(uint16_t word) {
  return static_cast<int32_t>(word & 0xFU) - ((word & 0x8U) != 0 ? 16 : 0);
}

// The word nearest to a scale >= 0 whose lowest `fixed_bits` bits are `fixed`.
inline uint16_t NearestScaleWord(float scale, int32_t fixed_bits, int32_t fixed) {
  const int32_t shift = kScaleWordShift + fixed_bits;
  const int32_t bits = std::bit_cast<int32_t>(scale) - kScaleWordBias - (fixed << kScaleWordShift);
  const int32_t nearest = (bits + (1 << (shift - 1))) >> shift;
  const int32_t most = (1 << (16 - fixed_bits)) - 1;
  return static_cast<uint16_t>((std::clamp(nearest, 0, most) << fixed_bits) + fixed);
}

namespace group_rounding {

inline constexpr int32_t kParts = 8;  // sums and extremes of a group are taken in so many parts

struct Extremes {
  float low;   // <= 0
  float high;  // >= 0
};

// NaN counts as 0.
inline Extremes ExtremesOf(const float* values) {
  float low[kParts] = {};
  float high[kParts] = {};
  for (int32_t i = 0; i < kWeightGroup; i += kParts) {
    for (int32_t p = 0; p < kParts; ++p) {
      const float value = values[i + p];
      low[p] = value < low[p] ? value : low[p];
      high[p] = value > high[p] ? value : high[p];
    }
  }
  return {*std::min_element(low, low + kParts), *std::max_element(high, high + kParts)};
}

// To nearest even, of a magnitude below 2^22; the operands of the comparisons bound a NaN too.
inline float RoundBetween(float value, float least, float most) {
  constexpr float kOnlyIntegers = 0x1.8p23F;
  const float bounded = value < most ? value : most;
  return ((bounded > least ? bounded : least) + kOnlyIntegers) - kOnlyIntegers;
}

// Rounds with a given scale; returns the sum of squared errors.
inline float RoundCodes(const float* values, float scale, float zero_point, float least, float most, float* codes) {
  const float factor = 1.0F / scale;
  float errors[kParts] = {};
  for (int32_t i = 0; i < kWeightGroup; i += kParts) {
    for (int32_t p = 0; p < kParts; ++p) {
      const float code = RoundBetween(values[i + p] * factor + zero_point, least, most);
      const float error = values[i + p] - (code - zero_point) * scale;
      codes[i + p] = code;
      errors[p] += error * error;
    }
  }
  float sum = 0.0F;
  for (const float error : errors) sum += error;
  return sum;
}

}  // namespace group_rounding

// values[kWeightGroup], padded with zeros, to codes; returns the group's scale word.
inline uint16_t RoundGroupToInt8(const float* values, int8_t* codes) {
  using namespace group_rounding;
  const Extremes extremes = ExtremesOf(values);
  const uint16_t word = NearestScaleWord(std::max(-extremes.low, extremes.high) / 127.0F, 0, 0);
  float rounded[kWeightGroup];
  RoundCodes(values, ScaleOfWord(word), 0.0F, -127.0F, 127.0F, rounded);
  for (int32_t i = 0; i < kWeightGroup; ++i) codes[i] = static_cast<int8_t>(rounded[i]);
  return word;
}

inline uint16_t RoundGroupToInt4(const float* values, int8_t* codes) {
  using namespace group_rounding;
  const Extremes extremes = ExtremesOf(values);
  const int32_t symmetric_zero = -extremes.low > extremes.high ? 0 : -1;
  const float symmetric_scale = std::max(-extremes.low, extremes.high) / 8.0F;
  const float range_scale = (extremes.high - extremes.low) / 15.0F;
  const float from_low = range_scale > 0.0F ? -extremes.low / range_scale : 0.0F;
  const auto range_zero = static_cast<int32_t>(RoundBetween(from_low, 0.0F, 15.0F)) - 8;

  float rounded[2][kWeightGroup];
  const int32_t zeros[2] = {symmetric_zero, range_zero};
  const float scales[2] = {symmetric_scale, range_scale};
  uint16_t words[2];
  float errors[2];
  for (int32_t choice = 0; choice < 2; ++choice) {
    words[choice] = NearestScaleWord(scales[choice], 4, zeros[choice] & 0xF);
    errors[choice] =
        RoundCodes(values, ScaleOfWord(words[choice]), static_cast<float>(zeros[choice]), -8.0F, 7.0F, rounded[choice]);
  }
  const int32_t better = errors[1] < errors[0] ? 1 : 0;
  for (int32_t i = 0; i < kWeightGroup; ++i) codes[i] = static_cast<int8_t>(rounded[better][i]);
  return words[better];
}

}  // namespace dunlin::kernels
