// SPDX-License-Identifier: Apache-2.0
// The layout of PackedWeight::data, the same for every CPU variant.
//
// Columns of the product (output features) come in panels of 48 = 3 vectors of 16 floats. Inside a panel K ascends:
//   f32, f16    [K][48]
//   bf16        [K / 2][48][2]             pairs for the BF16 dot product; an odd K is padded with zeros
//   e4m3, codes of 8 bits  [K / 4][3][4][2][4][2]  a group of 4 K x 48 columns: vector, quarter, pair, column, K of the
//               pair; a lookup of the bytes followed by an unpack of low and high halves gives two steps of the bf16
//               panel
//   codes of 4 bits  [K / 8][48][2][4]     a 32-bit word a column: the four even K in the low half, the odd K in the
//               high half, so that a shift of the halves by 4 bits gives the next pair
//   codes of 6 bits  [K / 16][3][3][16]    vector, word, column: three 32-bit words a column, with the even K in the
//               low halves and the odd K in the high ones: K 0 to 11 in the first 12 bits of the six halves, so that a
//               shift of the halves by 6 bits gives a word's second pair; K 12 to 15 in the 4 bits left in each half
// Gated weights: 48 columns of the gate, then the 48 that they gate, and so on, so that a block of the product has
// both; the last groups may be narrower. N is padded to a multiple of 48: with zeros, in grouped formats with anything.
// The scales follow the panels: E4M3 floats, [panel][scale of the row][48]; grouped formats by GroupScales:
//   kWord, kZeroWord, kHalf  16-bit words [panel][group][48]
//   kHalfZero   for each [panel][group] FP16 scales [48], then 8-bit zero points [48]
//   kSuper      [panel][super-block]: FP16 factors [48], then 8-bit scales [group of the super-block][48]
//   kSuperMin   [panel][super-block]: FP16 factors of scales [48] and of minima [48], then for each group of the
//               super-block 8-bit scales [48] and minima [48]
//   kWideMin    for each [panel][group] FP32 scales [48] and minima [48]
//   kSuperFloat, kSuperE4M3  [panel][super-block]: FP32 factors [48], then 8-bit scales [group of the super-block][48]
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/gemm.h"
#include "kernels/api/group_rounding.h"
#include "kernels/cpu/context/round_up.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kPanelColumns = 48;

constexpr bool IsGrouped(WeightFormat format) {
  return Traits(format).group != 0;
}

// Bits of the integers that codes stand for.
constexpr int32_t IntegerBits(WeightFormat format) {
  return Traits(format).levels == CodeLevels::kIntegers ? Traits(format).code_bits : 8;
}

// What makes every integer of a format unsigned, added to it.
constexpr int32_t UnsignedBias(WeightFormat format) {
  return Traits(format).levels == CodeLevels::kIntegers ? -Traits(format).code_min() : 1 << 7;
}

// K elements that are stored together; K is padded to a multiple of it.
constexpr int64_t DepthUnit(WeightFormat format) {
  if (format == WeightFormat::kBf16) return 2;
  switch (Traits(format).code_bits) {
    case 8:
      return 4;
    case 4:
      return 8;
    case 6:
      return 16;
    default:
      return 1;
  }
}
constexpr int64_t PaddedDepth(WeightFormat format, int64_t depth) {
  return RoundUp(depth, DepthUnit(format));
}
constexpr int64_t NumPanels(int64_t out_features) {
  return (out_features + kPanelColumns - 1) / kPanelColumns;
}
// Of a grouped format.
constexpr int64_t NumGroups(WeightFormat format, int64_t depth) {
  return (depth + Traits(format).group - 1) / Traits(format).group;
}

constexpr size_t PanelBytes(WeightFormat format, int64_t depth) {
  return static_cast<size_t>(PaddedDepth(format, depth) * kPanelColumns * Traits(format).code_bits / 8);
}

// Bytes of a super-block's scales in a panel.
constexpr size_t SuperScaleBytes(GroupScales scales, int32_t group) {
  const int32_t bits = Traits(scales).super_bits + kSuperBlock / group * Traits(scales).group_bits;
  return static_cast<size_t>(kPanelColumns) * static_cast<size_t>(bits / 8);
}
// Bytes of a panel's scales; of grouped formats.
constexpr size_t GroupScaleBytes(WeightFormat format, int64_t depth) {
  const WeightFormatTraits& traits = Traits(format);
  if (Traits(traits.scales).super_bits != 0) {
    return static_cast<size_t>((depth + kSuperBlock - 1) / kSuperBlock) * SuperScaleBytes(traits.scales, traits.group);
  }
  return static_cast<size_t>(NumGroups(format, depth) * kPanelColumns * (Traits(traits.scales).group_bits / 8));
}

// Byte offset of the scales.
constexpr size_t ScaleOffset(WeightFormat format, int64_t out_features, int64_t depth) {
  return static_cast<size_t>(NumPanels(out_features)) * PanelBytes(format, depth);
}
constexpr size_t PackedBytes(WeightFormat format, int64_t out_features, int64_t depth, int32_t scale_block) {
  size_t scale_bytes = IsGrouped(format) ? GroupScaleBytes(format, depth) : 0;  // of a panel
  if (format == WeightFormat::kE4M3)
    scale_bytes = static_cast<size_t>(ScalesPerRow(scale_block, depth) * kPanelColumns) * sizeof(float);
  return ScaleOffset(format, out_features, depth) + static_cast<size_t>(NumPanels(out_features)) * scale_bytes;
}

// Output features that are stored in ascending order: all of them, or the gate and what it gates each.
constexpr int64_t FeaturesInOrder(const PackedWeight& weight) {
  return weight.gated ? weight.out_features / 2 : weight.out_features;
}
// The stored column of an output feature.
constexpr int64_t StoredColumn(const PackedWeight& weight, int64_t feature) {
  if (!weight.gated) return feature;
  const int64_t half = weight.out_features / 2;
  const int64_t index = feature % half;
  const int64_t first = index / kPanelColumns * kPanelColumns;
  const int64_t width = half - first < kPanelColumns ? half - first : kPanelColumns;
  return index + first + (feature < half ? 0 : width);
}

inline std::byte* ScaleStart(const PackedWeight& weight) {
  return static_cast<std::byte*>(weight.data) + ScaleOffset(weight.format, weight.out_features, weight.in_features);
}
// The FP8 scales of a panel: [ScalesPerRow][48].
inline float* PanelScales(const PackedWeight& weight, int64_t panel) {
  return reinterpret_cast<float*>(ScaleStart(weight)) +
         panel * ScalesPerRow(weight.scale_block, weight.in_features) * kPanelColumns;
}
// The scales of a panel of a grouped format.
inline std::byte* PanelGroupScales(const PackedWeight& weight, int64_t panel) {
  return ScaleStart(weight) + static_cast<size_t>(panel) * GroupScaleBytes(weight.format, weight.in_features);
}

// Index of element (k, column of the panel), in elements from the panel's start; not of codes of 6 bits. Of codes of 4
// bits the lower half of a byte comes first.
constexpr int64_t ElementIndex(WeightFormat format, int64_t k, int64_t column) {
  if (format == WeightFormat::kBf16) return (k / 2 * kPanelColumns + column) * 2 + k % 2;
  switch (Traits(format).code_bits) {
    case 8:
      return k / 4 * (4 * kPanelColumns) + column / 16 * 64 + column % 16 / 4 * 16 + k % 4 / 2 * 8 + column % 4 * 2 +
             k % 2;
    case 4:
      return (k / 8 * kPanelColumns + column) * 8 + k % 2 * 4 + k % 8 / 2;
    default:
      return k * kPanelColumns + column;
  }
}

// The three words of sixteen K and a column of codes of 6 bits: bytes from the panel's start to the first; the others
// follow kSixBitWordStride bytes apart.
inline constexpr int64_t kSixBitWordStride = 64;
constexpr int64_t SixBitWords(int64_t k, int64_t column) {
  return (k / 16 * 3 + column / 16) * (3 * kSixBitWordStride) + column % 16 * 4;
}
// The code of element k % 16, sign-extended.
constexpr int32_t SixBitCode(const uint32_t (&words)[3], int64_t k) {
  const auto half = static_cast<int32_t>(k % 2 * 16);
  const auto step = static_cast<int32_t>(k % 16 / 2);
  uint32_t code = words[step / 2 % 3] >> (half + step % 2 * 6);
  if (step >= 6) {
    uint32_t rest = 0;
    for (int32_t w = 0; w < 3; ++w) rest |= (words[w] >> (half + 12) & 0xFU) << (4 * w);
    code = rest >> (step % 2 * 6);
  }
  return static_cast<int32_t>(code << 26) >> 26;
}

}  // namespace dunlin::kernels::cpu
