// SPDX-License-Identifier: Apache-2.0
// The layout of PackedWeight::data, the same for every CPU variant.
//
// Columns of the product (output features) come in panels of 48 = 3 vectors of 16 floats. Inside a panel K ascends:
//   f32, f16    [K][48]
//   bf16        [K / 2][48][2]             pairs for the BF16 dot product; an odd K is padded with zeros
//   e4m3, int8  [K / 4][3][4][2][4][2]     a group of 4 K x 48 columns: vector, quarter, pair, column, K of the pair;
//               a lookup of the bytes followed by an unpack of low and high halves gives two steps of the bf16 panel
//   int4        [K / 8][48][2][4]          a 32-bit word a column: the four even K in the low half, the odd K in the
//               high half, so that a shift of the halves by 4 bits gives the next pair
// Gated weights: 48 columns of the gate, then the 48 that they gate, and so on, so that a block of the product has
// both; the last groups may be narrower. N is padded to a multiple of 48: with zeros, in grouped formats with anything.
// The scales follow the panels: E4M3 floats, [panel][scale of the row][48]; grouped formats words (group_rounding.h),
// [panel][group][48].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/gemm.h"
#include "kernels/api/group_rounding.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kPanelColumns = 48;

constexpr int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

constexpr bool IsGrouped(WeightFormat format) {
  return Traits(format).group != 0;
}

// K elements that are stored together; K is padded to a multiple of it.
constexpr int64_t DepthUnit(WeightFormat format) {
  switch (format) {
    case WeightFormat::kBf16:
      return 2;
    case WeightFormat::kE4M3:
    case WeightFormat::kInt8:
      return 4;
    case WeightFormat::kInt4:
      return 8;
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
constexpr int64_t NumGroups(int64_t depth) {
  return (depth + kWeightGroup - 1) / kWeightGroup;
}

constexpr size_t PanelBytes(WeightFormat format, int64_t depth) {
  return static_cast<size_t>(PaddedDepth(format, depth) * kPanelColumns * Traits(format).code_bits / 8);
}
// Byte offset of the scales.
constexpr size_t ScaleOffset(WeightFormat format, int64_t out_features, int64_t depth) {
  return static_cast<size_t>(NumPanels(out_features)) * PanelBytes(format, depth);
}
constexpr size_t PackedBytes(WeightFormat format, int64_t out_features, int64_t depth, int32_t scale_block) {
  const auto columns = static_cast<size_t>(NumPanels(out_features) * kPanelColumns);
  size_t scale_bytes = 0;  // of a column
  if (format == WeightFormat::kE4M3)
    scale_bytes = static_cast<size_t>(ScalesPerRow(scale_block, depth)) * sizeof(float);
  if (IsGrouped(format)) scale_bytes = static_cast<size_t>(NumGroups(depth)) * sizeof(uint16_t);
  return ScaleOffset(format, out_features, depth) + columns * scale_bytes;
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
// The scale words of a panel of a grouped format: [NumGroups][48].
inline uint16_t* PanelScaleWords(const PackedWeight& weight, int64_t panel) {
  return reinterpret_cast<uint16_t*>(ScaleStart(weight)) + panel * NumGroups(weight.in_features) * kPanelColumns;
}

// Index of element (k, column of the panel), in elements from the panel's start. INT4: the lower half of a byte first.
constexpr int64_t ElementIndex(WeightFormat format, int64_t k, int64_t column) {
  switch (format) {
    case WeightFormat::kBf16:
      return (k / 2 * kPanelColumns + column) * 2 + k % 2;
    case WeightFormat::kE4M3:
    case WeightFormat::kInt8:
      return k / 4 * (4 * kPanelColumns) + column / 16 * 64 + column % 16 / 4 * 16 + k % 4 / 2 * 8 + column % 4 * 2 +
             k % 2;
    case WeightFormat::kInt4:
      return (k / 8 * kPanelColumns + column) * 8 + k % 2 * 4 + k % 8 / 2;
    default:
      return k * kPanelColumns + column;
  }
}

}  // namespace dunlin::kernels::cpu
