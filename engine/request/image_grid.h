// SPDX-License-Identifier: Apache-2.0
// The patches of an image as an encoder takes them, and their order. Plain values.
#pragma once

#include <cstdint>

namespace dunlin::engine {

// In patches; both multiples of those of a side that become one row.
struct ImageGrid {
  int32_t rows = 0;
  int32_t columns = 0;

  int64_t num_patches() const { return int64_t{rows} * columns; }
  friend bool operator==(const ImageGrid&, const ImageGrid&) = default;
};

// Where patch `index` stands. Squares of merge x merge patches follow one another row by row, and so do the patches
// inside one: those that become one row are neighbours. REQUIRES: 0 <= index < grid.num_patches().
struct PatchPlace {
  int32_t row = 0;
  int32_t column = 0;
  friend bool operator==(const PatchPlace&, const PatchPlace&) = default;
};
constexpr PatchPlace PlaceOf(ImageGrid grid, int32_t merge, int64_t index) {
  const int64_t per_square = int64_t{merge} * merge;
  const int64_t squares_per_row = grid.columns / merge;
  const int64_t square = index / per_square;
  const int64_t inside = index % per_square;
  return {.row = static_cast<int32_t>(square / squares_per_row * merge + inside / merge),
          .column = static_cast<int32_t>(square % squares_per_row * merge + inside % merge)};
}

}  // namespace dunlin::engine
