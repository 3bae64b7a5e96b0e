// SPDX-License-Identifier: Apache-2.0
// The layout of Activation::data. A row has room for floats whatever its element type is (bf16 and fp8 rows
// are BF16 or floats, as the kernel table says), so an operation can work in place and round at the end. The gap after
// the elements holds zeros up to the next multiple of 16: K is padded to it. Behind the room for floats there is a
// float for every 16 columns: the sums of the row's groups, which a product with zero points or minima writes before it
// starts (group_sums.h). Rows are an odd number of 64-byte lines apart, so that rows of a power-of-two width do not
// fall into the same cache sets. FP8: the FP32 scales of all rows follow the rows, [capacity_rows, ScalesPerRow].
// BF16: room for the rows rounded to 8 bits follows the rows, which a product of PackedWeight::int8_inputs writes
// before it starts (round_inputs): the codes of a row, [columns] in the order in which the product's kernel reads them,
// zeros up to the next multiple of 64, then an InputGroup for each group of the weight's.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/api/gemm.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kActivationPad = 16;  // elements
inline constexpr int64_t kSmallestGroup = 16;  // columns that share a sum, at least

constexpr size_t FloatLines(int64_t floats) {
  return (static_cast<size_t>(floats) * sizeof(float) + 63) / 64;
}
// Byte offset of the group sums in a row.
constexpr size_t GroupSumOffset(int64_t columns) {
  return FloatLines(columns) * 64;
}
constexpr size_t ActivationStride(int64_t columns) {
  const size_t lines = FloatLines(columns) + FloatLines((columns + kSmallestGroup - 1) / kSmallestGroup);
  return (lines | 1) * 64;
}

// A group of a row that is rounded to 8 bits.
struct InputGroup {
  float scale;    // value = scale * code; NaN where a value of the group is not finite
  float sum;      // scale * the sum of the codes
  int32_t start;  // where the integer sums of products start: the sum of the codes times what the kernel adds to every
                  // code of the weight to make it unsigned, negated
};

// Byte offset of the groups in a rounded row.
constexpr size_t InputGroupOffset(int64_t columns) {
  return (static_cast<size_t>(columns) + 63) / 64 * 64;
}
constexpr size_t CodedRowStride(int64_t columns) {
  const size_t groups = static_cast<size_t>((columns + kSmallestGroup - 1) / kSmallestGroup);
  const size_t lines = InputGroupOffset(columns) / 64 + (groups * sizeof(InputGroup) + 63) / 64;
  return (lines | 1) * 64;
}

constexpr size_t ActivationBytes(Precision precision, int64_t rows, int64_t columns) {
  const int64_t scales = precision == Precision::kFp8 ? rows * ScalesPerRow(kScaleBlock, columns) : 0;
  const size_t coded = precision == Precision::kBf16 ? CodedRowStride(columns) : 0;
  return static_cast<size_t>(rows) * (ActivationStride(columns) + coded) + static_cast<size_t>((scales + 15) / 16) * 64;
}

inline std::byte* ActivationRow(const Activation& activation, int64_t row) {
  return static_cast<std::byte*>(activation.data) + static_cast<size_t>(row) * ActivationStride(activation.columns);
}

// BF16 only: a row rounded to 8 bits.
inline std::byte* CodedRow(const Activation& activation, int64_t row) {
  return ActivationRow(activation, activation.capacity_rows) +
         static_cast<size_t>(row) * CodedRowStride(activation.columns);
}

// FP8 only: the scales of a row, [ScalesPerRow].
inline float* ActivationScales(const Activation& activation, int64_t row) {
  auto* scales = reinterpret_cast<float*>(ActivationRow(activation, activation.capacity_rows));
  return scales + row * ScalesPerRow(activation.scale_block, activation.columns);
}

}  // namespace dunlin::kernels::cpu
