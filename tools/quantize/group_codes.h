// SPDX-License-Identifier: Apache-2.0
// Symmetric integer codes of a weight matrix with a scale per group of columns, as compressed-tensors stores them:
// value = scale * code, code in [-2^(bits - 1), 2^(bits - 1) - 1]. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/dtype.h"

namespace dunlin::engine {

struct CodeLayout {
  int32_t bits = 4;                                    // 4 or 8
  int64_t group = 32;                                  // columns that share a scale
  kernels::DType scale_dtype = kernels::DType::kBF16;  // kF32, kF16 or kBF16: codes are rounded with the stored scale
};

struct CodedMatrix {
  int64_t rows = 0;
  int64_t columns = 0;
  CodeLayout layout;
  std::vector<int8_t> codes;  // [rows, columns]
  std::vector<float> scales;  // [rows, columns / layout.group], each representable in scale_dtype

  int64_t num_groups() const { return columns / layout.group; }
};

// Zero codes and scales. REQUIRES: columns is a multiple of layout.group.
CodedMatrix EmptyCodes(const CodeLayout& layout, int64_t rows, int64_t columns);

// The scale, representable in the layout's dtype and > 0, with the least squared error over `values` of the scales
// tried: 20 between half of that which reaches the largest magnitude and all of it. 8 bits: that one alone.
float ScaleOfGroup(const CodeLayout& layout, std::span<const float> values);

// The nearest code, ties to even.
int8_t CodeOf(const CodeLayout& layout, float value, float scale);

// Rounds every element to nearest. values: [rows, columns], finite.
CodedMatrix RoundToNearest(const CodeLayout& layout, const float* values, int64_t rows, int64_t columns);

}  // namespace dunlin::engine
