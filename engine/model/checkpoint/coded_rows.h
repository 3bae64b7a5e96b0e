// SPDX-License-Identifier: Apache-2.0
// Rows of a matrix as the integer codes of its checkpoint, in host memory (kernels/api/weight_codes.h).
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/api/weight_codes.h"

namespace dunlin::engine {

struct CodedRows {
  kernels::CodeTraits traits = {};
  int64_t num_rows = 0;
  int64_t columns = 0;
  std::vector<int8_t> codes;          // [num_rows, columns]
  std::vector<uint16_t> factors;      // FP16 [num_rows, blocks]; empty with traits.wide
  std::vector<int8_t> scales;         // [num_rows, groups]; empty without traits.scales
  std::vector<uint16_t> min_factors;  // FP16 [num_rows, blocks]; empty without traits.minimums
  std::vector<int8_t> minimums;       // [num_rows, groups]; empty without traits.minimums
  std::vector<int8_t> zero_points;    // [num_rows, groups]; empty without traits.zero_points
  std::vector<float> wide_factors;    // [num_rows, blocks]; empty without traits.wide

  // Makes room for rows of such codes; the contents are left to the caller.
  void Resize(const kernels::CodeTraits& of, int64_t rows, int64_t row_columns);
  // Of rows [first_row, num_rows).
  kernels::WeightCodes View(int64_t first_row = 0) const;
  // Makes row `to` a copy of a row of `from`. REQUIRES: both were resized to the same traits and columns.
  void CopyRow(const CodedRows& from, int64_t from_row, int64_t to);
  // The values, [num_rows, columns]: scale * code - minimum, rounded once.
  void Dequantize(float* out) const;
};

}  // namespace dunlin::engine
