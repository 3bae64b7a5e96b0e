// SPDX-License-Identifier: Apache-2.0
// The positions that an encoder of images has learned for a square grid of patches, resampled to the grid of an image:
// bilinearly, with the corners of both grids in one place. Pure.
// Source: transformers 5.24, get_vision_interpolation_indices_and_weights with align_corners.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/request/image_grid.h"

namespace dunlin::engine {

class PatchPositions {
 public:
  // table: [side, side, hidden_dim] of rows and columns; empty with side 0.
  PatchPositions(std::vector<float> table, int32_t side);

  bool empty() const { return table_.empty(); }
  int64_t hidden_dim() const { return hidden_dim_; }
  // Of the patch in this row and column of the grid, [hidden_dim]. REQUIRES: it is in the grid, and not empty().
  void Resample(const ImageGrid& grid, int32_t row, int32_t column, float* out) const;

 private:
  const float* At(int64_t row, int64_t column) const { return table_.data() + (row * side_ + column) * hidden_dim_; }

  std::vector<float> table_;
  int32_t side_;
  int64_t hidden_dim_;
};

}  // namespace dunlin::engine
