// SPDX-License-Identifier: Apache-2.0
// Weights that a checkpoint stores as integer codes: their description in host memory, and which formats of a packed
// weight hold them exactly. Plain data, any thread.
//
// value(n, k) = (factor * scale) * code - minimum factor * minimum, where the factors are FP16 and everything else is
// an integer: all products are exact in FP32, so that the value is rounded once, by the difference.
// With zero points value(n, k) = factor * (code - zero point), and factors may be FP32: one product, rounded once.
// FP32 factors with scales: value(n, k) = (factor * scale) * code, each product rounded to FP32.
#pragma once

#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/float_formats.h"

namespace dunlin::kernels {

// What codes there are and how they are scaled: of a whole tensor.
struct CodeTraits {
  int32_t code_min;  // >= -128
  int32_t code_max;  // <= 127
  int32_t group;     // elements of K that share a scale and a minimum; a multiple of 16
  int32_t block;     // elements of K that share the FP16 factors; a multiple of `group`
  bool scales;       // whether a group has a scale of 8 bits; 1 otherwise
  bool minimums;     // whether a group has a minimum; 0 otherwise
  // Whether a group has a zero point; neither scales nor minimums then.
  bool zero_points = false;
  // Whether the factors are FP32; no minimums then, and scales or zero points. Beside zero points they have up to 16
  // significant bits, so that factor * zero point and factor * code are exact.
  bool wide = false;
  CodeLevels levels = CodeLevels::kIntegers;  // the values that codes have; others than kIntegers: of code_levels.h
  bool e4m3_scales = false;                   // whether scales are E4M3 numbers, finite, instead of integers

  bool operator==(const CodeTraits&) const = default;
};

// Rows of such a tensor in host memory; the last group and block of a row may be shorter.
struct WeightCodes {
  CodeTraits traits;
  const int8_t* codes;                    // [rows, in_features]: integers, also with traits.levels
  const uint16_t* factors;                // FP16 [rows, blocks], without traits.wide
  const int8_t* scales = nullptr;         // [rows, groups], with traits.scales
  const uint16_t* min_factors = nullptr;  // FP16 [rows, blocks], with traits.minimums
  const int8_t* minimums = nullptr;       // [rows, groups], with traits.minimums
  const int8_t* zero_points = nullptr;    // [rows, groups], with traits.zero_points
  const float* wide_factors = nullptr;    // [rows, blocks], with traits.wide
};

// Groups of a row, in order.
constexpr int64_t GroupsOf(const CodeTraits& traits, int64_t in_features) {
  return (in_features + traits.group - 1) / traits.group;
}
constexpr int64_t BlocksOf(const CodeTraits& traits, int64_t in_features) {
  return (in_features + traits.block - 1) / traits.block;
}

// Scale and minimum of element k of a row; the minimum of a zero point is scale * zero point.
// NOLINTBEGIN(bugprone-integer-division): quotients are indices
inline float ScaleAt(const WeightCodes& codes, int64_t in_features, int64_t row, int64_t k) {
  const int64_t block = row * BlocksOf(codes.traits, in_features) + k / codes.traits.block;
  const float factor = codes.traits.wide ? codes.wide_factors[block] : Fp16ToFloat(codes.factors[block]);
  if (!codes.traits.scales) return factor;
  const int8_t scale = codes.scales[row * GroupsOf(codes.traits, in_features) + k / codes.traits.group];
  return factor * (codes.traits.e4m3_scales ? E4M3ToFloat(static_cast<uint8_t>(scale)) : static_cast<float>(scale));
}
inline float MinimumAt(const WeightCodes& codes, int64_t in_features, int64_t row, int64_t k) {
  if (codes.traits.zero_points) {
    const int8_t zero_point = codes.zero_points[row * GroupsOf(codes.traits, in_features) + k / codes.traits.group];
    return ScaleAt(codes, in_features, row, k) * static_cast<float>(zero_point);
  }
  if (!codes.traits.minimums) return 0.0F;
  const float factor =
      Fp16ToFloat(codes.min_factors[row * BlocksOf(codes.traits, in_features) + k / codes.traits.block]);
  return factor *
         static_cast<float>(codes.minimums[row * GroupsOf(codes.traits, in_features) + k / codes.traits.group]);
}
// NOLINTEND(bugprone-integer-division)

// Whether the codes are those of the format's table, or integers within its bits.
constexpr bool HoldsValues(const WeightFormatTraits& format, const CodeTraits& codes) {
  if (format.levels != CodeLevels::kIntegers) return format.levels == codes.levels;
  return codes.code_min >= format.code_min() && codes.code_max < format.code_min() + (1 << format.code_bits);
}
// Whether a packed weight of that format has the values of such codes exactly. False for formats of wide weights.
constexpr bool Holds(WeightFormat format, const CodeTraits& codes) {
  const WeightFormatTraits& row = Traits(format);
  const GroupScalesTraits& held = Traits(row.scales);
  if (!held.keeps_codes || !HoldsValues(row, codes)) return false;
  if ((codes.scales && !held.integers) || (codes.minimums && !held.minimums) ||
      (codes.zero_points && !held.zero_points) || (codes.wide && !held.wide)) {
    return false;
  }
  // FP32 factors are stored as they are, with the scales of their groups.
  if (held.super_floats() &&
      !(codes.wide && codes.scales && codes.e4m3_scales == (row.scales == GroupScales::kSuperE4M3))) {
    return false;
  }
  if (held.super_bits != 0 && codes.block % kSuperBlock != 0) return false;
  const bool only_factors = !held.integers && !held.minimums && !held.zero_points;
  return (only_factors ? codes.block : codes.group) % row.group == 0;
}

}  // namespace dunlin::kernels
