// SPDX-License-Identifier: Apache-2.0
// Element types of tensors, formats of packed weights, and the precisions that a request may choose. Plain data, any
// thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "kernels/api/choice_table.h"

namespace dunlin::kernels {

enum class DType : uint8_t { kF32, kF16, kBF16, kF8E4M3 };

constexpr size_t SizeOf(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return 4;
    case DType::kF16:
    case DType::kBF16:
      return 2;
    case DType::kF8E4M3:
      return 1;
  }
  return 0;
}

constexpr const char* Name(DType dtype) {
  switch (dtype) {
    case DType::kF32:
      return "fp32";
    case DType::kF16:
      return "fp16";
    case DType::kBF16:
      return "bf16";
    case DType::kF8E4M3:
      return "fp8_e4m3";
  }
  return "?";
}

// How a request's weights are stored and multiplied. Activations between operations are always FP32. A product's
// inputs have one of the first four (ComputeOf): those are the precisions of Activation and PackedWeight.
enum class Precision : uint8_t { kFp32, kBf16, kFp16, kFp8, kInt8, kInt4 };
inline constexpr int kNumPrecisions = 6;

// How the elements of a packed weight are coded. The formats from kQ8 on keep the codes and scales of a checkpoint that
// is quantised already (weight_codes.h); kInt8 and kInt4 are rounded from wide weights.
enum class WeightFormat : uint8_t {
  kF32,
  kBf16,
  kF16,
  kE4M3,
  kInt8,
  kInt4,
  kQ8,
  kQ4,
  kQ4Super,
  kQ6Super,
  kQ6Min,
  kQ8Wide,
  kQ4Zero,
  kIq2,
  kIq3,
  kOdd,
  kOddFine,
  kIq4,
  kE2M1
};
inline constexpr int kNumWeightFormats = 19;

// Elements of K of a row that share the FP16 factors of formats with integer scales.
inline constexpr int32_t kSuperBlock = 256;

// What a group of codes has in addition to them.
enum class GroupScales : uint8_t {
  kNone,
  kWord,        // the FP16 of 256 * scale: value = scale * code
  kZeroWord,    // the same with a zero point in its low 4 bits: value = scale * (code - zero point)
  kHalf,        // an FP16 scale: value = scale * code
  kHalfZero,    // the same with an 8-bit integer: value = scale * (code - zero point)
  kSuper,       // an 8-bit integer, times an FP16 factor for each kSuperBlock elements, is the scale
  kSuperMin,    // two 8-bit integers, times an FP16 factor each: value = scale * code - minimum
  kWideMin,     // FP32 scale and minimum
  kSuperFloat,  // an 8-bit integer, times an FP32 factor for each kSuperBlock elements, is the scale
  kSuperE4M3,   // the same with an E4M3 number
};
inline constexpr int kNumGroupScales = 10;

// Their sizes, and what of a checkpoint's codes (CodeTraits of weight_codes.h) they hold: one row for every kind.
struct GroupScalesTraits {
  GroupScales scales;
  int32_t group_bits = 0;    // of a group's own numbers
  int32_t super_bits = 0;    // of the factors of a kSuperBlock; 0: none are shared
  bool keeps_codes = false;  // false: rounded from wide weights, or none
  bool integers = false;     // a scale of 8 bits in a group
  bool minimums = false;
  bool zero_points = false;
  bool wide = false;  // FP32 factors

  // Factors of a kSuperBlock that are FP32.
  constexpr bool super_floats() const { return wide && super_bits != 0; }
};
inline constexpr GroupScalesTraits kGroupScalesTable[kNumGroupScales] = {
    {.scales = GroupScales::kNone},
    {.scales = GroupScales::kWord, .group_bits = 16},
    {.scales = GroupScales::kZeroWord, .group_bits = 16, .zero_points = true},
    {.scales = GroupScales::kHalf, .group_bits = 16, .keeps_codes = true},
    {.scales = GroupScales::kHalfZero, .group_bits = 24, .keeps_codes = true, .zero_points = true},
    {.scales = GroupScales::kSuper, .group_bits = 8, .super_bits = 16, .keeps_codes = true, .integers = true},
    {.scales = GroupScales::kSuperMin,
     .group_bits = 16,
     .super_bits = 32,
     .keeps_codes = true,
     .integers = true,
     .minimums = true},
    {.scales = GroupScales::kWideMin,
     .group_bits = 64,
     .keeps_codes = true,
     .integers = true,
     .minimums = true,
     .zero_points = true,
     .wide = true},
    {.scales = GroupScales::kSuperFloat,
     .group_bits = 8,
     .super_bits = 32,
     .keeps_codes = true,
     .integers = true,
     .wide = true},
    {.scales = GroupScales::kSuperE4M3,
     .group_bits = 8,
     .super_bits = 32,
     .keeps_codes = true,
     .integers = true,
     .wide = true},
};
static_assert([] {
  for (size_t i = 0; i < kNumGroupScales; ++i) {
    if (static_cast<size_t>(kGroupScalesTable[i].scales) != i) return false;
  }
  return true;
}());

constexpr const GroupScalesTraits& Traits(GroupScales scales) {
  return kGroupScalesTable[static_cast<size_t>(scales)];
}

// What 4-bit codes stand for: themselves, or an integer of 8 bits that a table has for them (code_levels.h).
enum class CodeLevels : uint8_t {
  kIntegers,
  kIq2,   // GGUF's IQ2 types
  kIq3,   // IQ3_XXS
  kOdd,   // the odd numbers from -15 to 15: IQ3_S, and IQ1 types in eighths
  kIq4,   // IQ4_XS
  kE2M1,  // E2M1 in halves: NVFP4
};
inline constexpr int kNumCodeLevels = 6;

// Which products take which weights: one row for every format.
struct WeightFormatTraits {
  WeightFormat format;
  const char* name;            // in messages
  Precision compute;           // of the activations that it is multiplied with
  std::optional<DType> dtype;  // of formats whose codes are numbers of a dtype; none: integers
  int32_t code_bits;
  int32_t group;  // elements of K of a row that share a scale; 0: no scales, or those of PackedWeight::scale_block
  GroupScales scales;
  CodeLevels levels = CodeLevels::kIntegers;

  // Whether a product takes the sums of the input's groups.
  constexpr bool offsets() const { return Traits(scales).zero_points || Traits(scales).minimums; }
  // Whether the scale is of the code less a zero point. Where there are minimums, a zero point becomes one.
  constexpr bool zero_points() const { return Traits(scales).zero_points && !Traits(scales).minimums; }
  // The least code; codes of 4 bits with a minimum are unsigned. Of integer codes.
  constexpr int32_t code_min() const { return code_bits == 4 && Traits(scales).minimums ? 0 : -(1 << (code_bits - 1)); }
};
inline constexpr WeightFormatTraits kWeightFormatTable[kNumWeightFormats] = {
    {WeightFormat::kF32, "f32", Precision::kFp32, DType::kF32, 32, 0, GroupScales::kNone},
    {WeightFormat::kBf16, "bf16", Precision::kBf16, DType::kBF16, 16, 0, GroupScales::kNone},
    {WeightFormat::kF16, "f16", Precision::kFp16, DType::kF16, 16, 0, GroupScales::kNone},
    {WeightFormat::kE4M3, "e4m3", Precision::kFp8, DType::kF8E4M3, 8, 0, GroupScales::kNone},
    {WeightFormat::kInt8, "int8_group32", Precision::kBf16, std::nullopt, 8, 32, GroupScales::kWord},
    {WeightFormat::kInt4, "int4_group32", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kZeroWord},
    {WeightFormat::kQ8, "q8_group32", Precision::kBf16, std::nullopt, 8, 32, GroupScales::kHalf},
    {WeightFormat::kQ4, "q4_group32", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kHalf},
    {WeightFormat::kQ4Super, "q4_super_min", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kSuperMin},
    {WeightFormat::kQ6Super, "q6_super", Precision::kBf16, std::nullopt, 6, 16, GroupScales::kSuper},
    {WeightFormat::kQ6Min, "q6_super_min", Precision::kBf16, std::nullopt, 6, 16, GroupScales::kSuperMin},
    {WeightFormat::kQ8Wide, "q8_wide_min", Precision::kBf16, std::nullopt, 8, 16, GroupScales::kWideMin},
    {WeightFormat::kQ4Zero, "q4_group32_zero", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kHalfZero},
    {WeightFormat::kIq2, "iq2_super", Precision::kBf16, std::nullopt, 4, 16, GroupScales::kSuperFloat,
     CodeLevels::kIq2},
    {WeightFormat::kIq3, "iq3_super", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kSuperFloat,
     CodeLevels::kIq3},
    {WeightFormat::kOdd, "odd_super", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kSuperFloat,
     CodeLevels::kOdd},
    {WeightFormat::kOddFine, "odd_super_group16", Precision::kBf16, std::nullopt, 4, 16, GroupScales::kSuperFloat,
     CodeLevels::kOdd},
    {WeightFormat::kIq4, "iq4_super", Precision::kBf16, std::nullopt, 4, 32, GroupScales::kSuperFloat,
     CodeLevels::kIq4},
    {WeightFormat::kE2M1, "e2m1_group16", Precision::kBf16, std::nullopt, 4, 16, GroupScales::kSuperE4M3,
     CodeLevels::kE2M1},
};
static_assert(IsChoiceTable(kWeightFormatTable, &WeightFormatTraits::format));

constexpr const WeightFormatTraits& Traits(WeightFormat format) {
  return kWeightFormatTable[static_cast<size_t>(format)];
}
constexpr const char* Name(WeightFormat format) {
  return Traits(format).name;
}
// Bytes of an element, with its share of a group's scale.
constexpr double BytesPerElement(WeightFormat format) {
  const WeightFormatTraits& traits = Traits(format);
  const GroupScalesTraits& scales = Traits(traits.scales);
  const double group_bits = traits.group == 0 ? 0.0 : static_cast<double>(scales.group_bits) / traits.group;
  return (traits.code_bits + group_bits + static_cast<double>(scales.super_bits) / kSuperBlock) / 8;
}

struct PrecisionTraits {
  Precision precision;
  const char* name;     // in configs, requests, commands, metrics and messages
  WeightFormat format;  // of the matrices that it quantises or stores
  DType kv_dtype;       // of the KV pages this precision writes
};
inline constexpr PrecisionTraits kPrecisionTable[kNumPrecisions] = {
    {Precision::kFp32, "fp32", WeightFormat::kF32, DType::kF32},
    {Precision::kBf16, "bf16", WeightFormat::kBf16, DType::kBF16},
    {Precision::kFp16, "fp16", WeightFormat::kF16, DType::kF16},
    {Precision::kFp8, "fp8", WeightFormat::kE4M3, DType::kBF16},
    {Precision::kInt8, "int8", WeightFormat::kInt8, DType::kBF16},
    {Precision::kInt4, "int4", WeightFormat::kInt4, DType::kBF16},
};
static_assert(IsChoiceTable(kPrecisionTable, &PrecisionTraits::precision));

constexpr const PrecisionTraits& Traits(Precision precision) {
  return kPrecisionTable[static_cast<size_t>(precision)];
}
constexpr const char* Name(Precision precision) {
  return Traits(precision).name;
}
// The precision of the activations that a precision's weights are multiplied with: bf16 for int8 and int4, itself for
// the others.
constexpr Precision ComputeOf(Precision precision) {
  return Traits(Traits(precision).format).compute;
}

}  // namespace dunlin::kernels
