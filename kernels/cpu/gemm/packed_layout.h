// SPDX-License-Identifier: Apache-2.0
// The layout of PackedWeight::data, the same for every CPU variant.
//
// Columns of the product (output features) come in panels of 48 = 3 vectors of 16 floats. Inside a panel K ascends:
//   fp32, fp16  [K][48]
//   bf16        [K / 2][48][2]             pairs for the BF16 dot product; an odd K is padded with zeros
//   fp8         [K / 4][3][4][2][4][2]     a group of 4 K x 48 columns: vector, quarter, pair, column, K of the pair;
//               a lookup of the bytes followed by an unpack of low and high halves gives two steps of the bf16 panel
// Gated weights: 48 columns of the gate, then the 48 that they gate, and so on, so that a block of the product has
// both; the last groups may be narrower. N is padded to a multiple of 48 with zeros. FP8 ends with its FP32 scales:
// [panel][scale of the row][48].
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/dtype.h"
#include "kernels/api/gemm.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kPanelColumns = 48;

constexpr int64_t RoundUp(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

// K elements that are stored together; K is padded to a multiple of it.
constexpr int64_t DepthUnit(Precision precision) {
  switch (precision) {
    case Precision::kBf16:
      return 2;
    case Precision::kFp8:
      return 4;
    default:
      return 1;
  }
}
constexpr int64_t PaddedDepth(Precision precision, int64_t depth) {
  return RoundUp(depth, DepthUnit(precision));
}
constexpr int64_t NumPanels(int64_t out_features) {
  return (out_features + kPanelColumns - 1) / kPanelColumns;
}

constexpr size_t ElementBytes(Precision precision) {
  return SizeOf(Traits(precision).weight_dtype);
}
constexpr size_t PanelBytes(Precision precision, int64_t depth) {
  return static_cast<size_t>(PaddedDepth(precision, depth) * kPanelColumns) * ElementBytes(precision);
}
// Byte offset of the FP8 scales.
constexpr size_t ScaleOffset(Precision precision, int64_t out_features, int64_t depth) {
  return static_cast<size_t>(NumPanels(out_features)) * PanelBytes(precision, depth);
}
constexpr size_t PackedBytes(Precision precision, int64_t out_features, int64_t depth, int32_t scale_block) {
  const int64_t scales = NumPanels(out_features) * kPanelColumns * ScalesPerRow(scale_block, depth);
  return ScaleOffset(precision, out_features, depth) +
         (precision == Precision::kFp8 ? static_cast<size_t>(scales) * sizeof(float) : 0);
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

// The FP8 scales of a panel: [ScalesPerRow][48].
inline float* PanelScales(const PackedWeight& weight, int64_t panel) {
  auto* scales = reinterpret_cast<float*>(static_cast<std::byte*>(weight.data) +
                                          ScaleOffset(weight.precision, weight.out_features, weight.in_features));
  return scales + panel * ScalesPerRow(weight.scale_block, weight.in_features) * kPanelColumns;
}

// Index of element (k, column of the panel), in elements from the panel's start.
constexpr int64_t ElementIndex(Precision precision, int64_t k, int64_t column) {
  switch (precision) {
    case Precision::kBf16:
      return (k / 2 * kPanelColumns + column) * 2 + k % 2;
    case Precision::kFp8:
      return k / 4 * (4 * kPanelColumns) + column / 16 * 64 + column % 16 / 4 * 16 + k % 4 / 2 * 8 + column % 4 * 2 +
             k % 2;
    default:
      return k * kPanelColumns + column;
  }
}

}  // namespace dunlin::kernels::cpu
