// SPDX-License-Identifier: Apache-2.0
// Rounding of a group of weights to INT8 or INT4 codes, and the 16-bit word that holds a group's scale and zero point.
// Scalar code that every device shares; any thread.
//
// INT8: value = scale * code, code in [-127, 127].
// INT4: value = scale * (code - zero point), code and zero point in [-8, 7]. The better of two choices by squared
// error: symmetric, where the largest magnitude takes the end of the codes that reaches further and the zero point is 0
// or -1, and asymmetric, where the codes span the smallest range that holds the values and 0.
// A scale word is the FP16 of 256 times the scale. With zero points the low 4 bits of its fraction are the zero point:
// of the scales with these bits the nearest is taken, within 0.8% above 2^-22, and codes are rounded with that scale.
// Zeros are exact; the scale of a group with NaN or infinity is NaN.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/float_formats.h"

namespace dunlin::kernels {

inline constexpr int32_t kWeightGroup = 32;  // elements of K of a group, the last of a row may be shorter
static_assert(Traits(WeightFormat::kInt8).group == kWeightGroup && Traits(WeightFormat::kInt4).group == kWeightGroup);

inline constexpr float kScaleWordUnit = 0x1p-8F;
inline constexpr uint16_t kNanScaleWord = 0x7E00;

constexpr float ScaleOfWord(uint16_t word) {
  return Fp16ToFloat(word) * kScaleWordUnit;
}
// The zero point in a word's low 4 bits, signed.
constexpr int32_t ZeroPointOfWord(uint16_t word) {
  return static_cast<int32_t>(word & 0xFU) - ((word & 0x8U) != 0 ? 16 : 0);
}

// The word nearest to a scale >= 0 whose lowest `fixed_bits` bits are `fixed`; a scale that is too large saturates.
constexpr uint16_t NearestScaleWord(float scale, int32_t fixed_bits, int32_t fixed) {
  constexpr int32_t kFractionShift = 23 - 10;     // from FP16 to FP32
  constexpr int32_t kSmallestNormal = 113 << 23;  // of FP16, 2^-14, as a float
  const float unit = scale / kScaleWordUnit;
  const auto bits = std::bit_cast<int32_t>(unit);
  // The word with kFractionShift more bits. Below the smallest normal number words are multiples of 2^-24.
  const int32_t exact =
      bits < kSmallestNormal ? static_cast<int32_t>(unit * 0x1p37F) : bits - kSmallestNormal + (1 << 23);
  const int32_t shift = kFractionShift + fixed_bits;
  const int32_t nearest = (exact - (fixed << kFractionShift) + (1 << (shift - 1))) >> shift;
  return static_cast<uint16_t>((std::clamp(nearest, 0, 0x7BFF >> fixed_bits) << fixed_bits) + fixed);
}

namespace group_rounding {

inline constexpr int32_t kParts = 8;  // sums and extremes of a group are taken in so many parts

struct Extremes {
  float low;    // <= 0
  float high;   // >= 0
  bool finite;  // whether all values are
};

constexpr Extremes ExtremesOf(const float* values) {
  float low[kParts] = {};
  float high[kParts] = {};
  float zeros[kParts] = {};  // NaN where a value was not finite
  for (int32_t i = 0; i < kWeightGroup; i += kParts) {
    for (int32_t p = 0; p < kParts; ++p) {
      const float value = values[i + p];
      low[p] = value < low[p] ? value : low[p];
      high[p] = value > high[p] ? value : high[p];
      zeros[p] += value * 0.0F;
    }
  }
  bool finite = true;
  for (const float zero : zeros) finite = finite && zero == 0.0F;
  return {*std::min_element(low, low + kParts), *std::max_element(high, high + kParts), finite};
}

// To nearest even, of a magnitude below 2^22; the operands of the comparisons bound a NaN too.
constexpr float RoundBetween(float value, float least, float most) {
  constexpr float kOnlyIntegers = 0x1.8p23F;
  const float bounded = value < most ? value : most;
  return ((bounded > least ? bounded : least) + kOnlyIntegers) - kOnlyIntegers;
}

// Rounds with a given scale; returns the sum of squared errors.
constexpr float RoundCodes(const float* values, float scale, float zero_point, float least, float most, float* codes) {
  const float factor = scale > 0.0F ? 1.0F / scale : 0.0F;
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

// A group of INT4 codes by one choice of scale and zero point.
struct Int4Codes {
  float codes[kWeightGroup];
  uint16_t word;
  float error;  // the sum of squares
};

constexpr Int4Codes RoundWith(const float* values, float scale, int32_t zero_point) {
  Int4Codes rounded{};
  rounded.word = NearestScaleWord(scale, 4, zero_point & 0xF);
  rounded.error =
      RoundCodes(values, ScaleOfWord(rounded.word), static_cast<float>(zero_point), -8.0F, 7.0F, rounded.codes);
  return rounded;
}

}  // namespace group_rounding

// values[kWeightGroup], padded with zeros, to codes; returns the group's scale word.
constexpr uint16_t RoundGroupToInt8(const float* values, int8_t* codes) {
  const group_rounding::Extremes extremes = group_rounding::ExtremesOf(values);
  const uint16_t word = NearestScaleWord(std::max(-extremes.low, extremes.high) / 127.0F, 0, 0);
  float rounded[kWeightGroup];
  group_rounding::RoundCodes(values, ScaleOfWord(word), 0.0F, -127.0F, 127.0F, rounded);
  for (int32_t i = 0; i < kWeightGroup; ++i) codes[i] = static_cast<int8_t>(rounded[i]);
  return extremes.finite ? word : kNanScaleWord;
}

constexpr uint16_t RoundGroupToInt4(const float* values, int8_t* codes) {
  const group_rounding::Extremes extremes = group_rounding::ExtremesOf(values);
  const int32_t symmetric_zero = -extremes.low > extremes.high ? 0 : -1;
  const float symmetric_scale = std::max(-extremes.low, extremes.high) / 8.0F;
  const float range_scale = (extremes.high - extremes.low) / 15.0F;
  const float from_low = range_scale > 0.0F ? -extremes.low / range_scale : 0.0F;
  const auto range_zero = static_cast<int32_t>(group_rounding::RoundBetween(from_low, 0.0F, 15.0F)) - 8;

  // Chosen by value: an array that is indexed at run time would lie in memory on a GPU.
  const group_rounding::Int4Codes symmetric = group_rounding::RoundWith(values, symmetric_scale, symmetric_zero);
  const group_rounding::Int4Codes range = group_rounding::RoundWith(values, range_scale, range_zero);
  const bool is_range = range.error < symmetric.error;
  for (int32_t i = 0; i < kWeightGroup; ++i) {
    codes[i] = static_cast<int8_t>(is_range ? range.codes[i] : symmetric.codes[i]);
  }
  return !extremes.finite ? kNanScaleWord : is_range ? range.word : symmetric.word;
}

}  // namespace dunlin::kernels
