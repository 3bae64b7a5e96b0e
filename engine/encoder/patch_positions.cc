// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/patch_positions.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace dunlin::engine {
namespace {

// The two of `side` entries between which position `index` of `size` lies, and what each counts.
struct Taps {
  int64_t index[2];
  float weight[2];
};

Taps TapsOf(int32_t index, int32_t size, int32_t side) {
  const float at = static_cast<float>(index) * static_cast<float>(side - 1) / static_cast<float>(std::max(size - 1, 1));
  const float before = std::floor(at);
  const auto first = static_cast<int64_t>(before);
  const int64_t last = side - 1;
  return {{std::min(first, last), std::min(first + 1, last)},
          {1.0F - (at - before), 1.0F - std::abs(at - before - 1.0F)}};
}

}  // namespace

PatchPositions::PatchPositions(std::vector<float> table, int32_t side)
    : table_(std::move(table)),
      side_(side),
      hidden_dim_(side == 0 ? 0 : static_cast<int64_t>(table_.size()) / (int64_t{side} * side)) {}

void PatchPositions::Resample(const ImageGrid& grid, int32_t row, int32_t column, float* out) const {
  const Taps rows = TapsOf(row, grid.rows, side_);
  const Taps columns = TapsOf(column, grid.columns, side_);
  const float* const corners[] = {At(rows.index[0], columns.index[0]), At(rows.index[0], columns.index[1]),
                                  At(rows.index[1], columns.index[0]), At(rows.index[1], columns.index[1])};
  const float weights[] = {rows.weight[0] * columns.weight[0], rows.weight[0] * columns.weight[1],
                           rows.weight[1] * columns.weight[0], rows.weight[1] * columns.weight[1]};
  for (int64_t i = 0; i < hidden_dim_; ++i) {
    out[i] = corners[0][i] * weights[0] + corners[1][i] * weights[1] + corners[2][i] * weights[2] +
             corners[3][i] * weights[3];
  }
}

}  // namespace dunlin::engine
