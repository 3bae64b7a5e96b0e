// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/coded_rows.h"

#include <algorithm>

namespace dunlin::engine {

void CodedRows::Resize(const kernels::CodeTraits& of, int64_t rows, int64_t row_columns) {
  traits = of;
  num_rows = rows;
  columns = row_columns;
  const auto blocks = static_cast<size_t>(rows * kernels::BlocksOf(of, columns));
  const auto groups = static_cast<size_t>(rows * kernels::GroupsOf(of, columns));
  codes.resize(static_cast<size_t>(rows * columns));
  factors.resize(of.wide ? 0 : blocks);
  scales.resize(of.scales ? groups : 0);
  min_factors.resize(of.minimums ? blocks : 0);
  minimums.resize(of.minimums ? groups : 0);
  zero_points.resize(of.zero_points ? groups : 0);
  wide_factors.resize(of.wide ? blocks : 0);
}

kernels::WeightCodes CodedRows::View(int64_t first_row) const {
  const auto from = [first_row](const auto& values, int64_t per_row) {
    return values.empty() ? values.data() : values.data() + first_row * per_row;
  };
  const int64_t blocks = kernels::BlocksOf(traits, columns);
  const int64_t groups = kernels::GroupsOf(traits, columns);
  return {.traits = traits,
          .codes = from(codes, columns),
          .factors = from(factors, blocks),
          .scales = from(scales, groups),
          .min_factors = from(min_factors, blocks),
          .minimums = from(minimums, groups),
          .zero_points = from(zero_points, groups),
          .wide_factors = from(wide_factors, blocks)};
}

void CodedRows::CopyRow(const CodedRows& from, int64_t from_row, int64_t to) {
  const auto copy = [from_row, to](const auto& source, int64_t per_row, auto* target) {
    if (source.empty()) return;
    std::copy_n(source.begin() + from_row * per_row, per_row, target->begin() + to * per_row);
  };
  const int64_t blocks = kernels::BlocksOf(traits, columns);
  const int64_t groups = kernels::GroupsOf(traits, columns);
  copy(from.codes, columns, &codes);
  copy(from.factors, blocks, &factors);
  copy(from.scales, groups, &scales);
  copy(from.min_factors, blocks, &min_factors);
  copy(from.minimums, groups, &minimums);
  copy(from.zero_points, groups, &zero_points);
  copy(from.wide_factors, blocks, &wide_factors);
}

void CodedRows::Dequantize(float* out) const {
  const kernels::WeightCodes view = View();
  for (int64_t row = 0; row < num_rows; ++row) {
    for (int64_t first = 0; first < columns; first += traits.group) {
      const float scale = kernels::ScaleAt(view, columns, row, first);
      const float minimum = kernels::MinimumAt(view, columns, row, first);
      const int8_t* of_group = codes.data() + row * columns + first;
      const int64_t count = std::min<int64_t>(traits.group, columns - first);
      for (int64_t k = 0; k < count; ++k) *out++ = scale * static_cast<float>(of_group[k]) - minimum;
    }
  }
}

}  // namespace dunlin::engine
