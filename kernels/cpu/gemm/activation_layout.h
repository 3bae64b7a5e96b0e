// SPDX-License-Identifier: Apache-2.0
// The layout of Activation::data. A row has room for floats whatever its element type is (bf16 and fp8 rows
// are BF16 or floats, as the kernel table says), so an operation can work in place and round at the end. The gap after
// the elements holds zeros up to the next multiple of 16: K is padded to it. Behind the room for floats there is a
// float for every 16 columns: the sums of the row's groups, which a product with zero points or minima writes before it
// starts (group_sums.h). Rows are an odd number of 64-byte lines apart, so that rows of a power-of-two width do not
// fall into the same cache sets. FP8: the FP32 scales of all rows follow the rows, [capacity_rows, ScalesPerRow].
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

constexpr size_t ActivationBytes(Precision precision, int64_t rows, int64_t columns) {
  const int64_t scales = precision == Precision::kFp8 ? rows * ScalesPerRow(kScaleBlock, columns) : 0;
  return static_cast<size_t>(rows) * ActivationStride(columns) + static_cast<size_t>((scales + 15) / 16) * 64;
}

inline std::byte* ActivationRow(const Activation& activation, int64_t row) {
  return static_cast<std::byte*>(activation.data) + static_cast<size_t>(row) * ActivationStride(activation.columns);
}

// FP8 only: the scales of a row, [ScalesPerRow].
inline float* ActivationScales(const Activation& activation, int64_t row) {
  auto* scales = reinterpret_cast<float*>(ActivationRow(activation, activation.capacity_rows));
  return scales + row * ScalesPerRow(activation.scale_block, activation.columns);
}

}  // namespace dunlin::kernels::cpu
