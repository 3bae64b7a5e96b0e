// SPDX-License-Identifier: Apache-2.0
// Learned positions of a square grid, resampled to those of images.
#include "engine/encoder/patch_positions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

namespace dunlin::engine {
namespace {

// A table of two elements, of which the first is the row and the second ten times the column: both are linear, so that
// a resampled one is where it stands.
PatchPositions LinearTable(int32_t side) {
  std::vector<float> table;
  for (int32_t row = 0; row < side; ++row) {
    for (int32_t column = 0; column < side; ++column) {
      table.push_back(static_cast<float>(row));
      table.push_back(10.0F * static_cast<float>(column));
    }
  }
  return {std::move(table), side};
}

TEST(PatchPositions, KeepTheCornersOfBothGridsInOnePlace) {
  for (const int32_t side : {2, 5, 48}) {
    const PatchPositions positions = LinearTable(side);
    EXPECT_EQ(positions.hidden_dim(), 2);
    for (const ImageGrid& grid : {ImageGrid{2, 2}, ImageGrid{7, 4}, ImageGrid{60, 98}}) {
      for (int32_t row = 0; row < grid.rows; ++row) {
        for (int32_t column = 0; column < grid.columns; ++column) {
          float at[2];
          positions.Resample(grid, row, column, at);
          const double down = static_cast<double>(row) * (side - 1) / (grid.rows - 1);
          const double right = static_cast<double>(column) * (side - 1) / (grid.columns - 1);
          ASSERT_NEAR(at[0], down, 1e-4) << row;
          ASSERT_NEAR(at[1], 10 * right, 1e-3) << column;
        }
      }
    }
  }
}

TEST(PatchPositions, OfTheTablesOwnGridAreTheTables) {
  const std::vector<float> table = {1.5F, -2.25F, 3.0F, 1e-7F, 5.0F, 7.5F, -0.125F, 9.0F, 1e7F};
  const PatchPositions positions(table, 3);
  for (int32_t i = 0; i < 9; ++i) {
    float at;
    positions.Resample({.rows = 3, .columns = 3}, i / 3, i % 3, &at);
    EXPECT_EQ(at, table[static_cast<size_t>(i)]);
  }
}

// As transformers' clamp(min=1) of the divisor.
TEST(PatchPositions, OfASingleRowAreTheFirstRows) {
  float at[2];
  LinearTable(5).Resample({.rows = 1, .columns = 5}, 0, 3, at);
  EXPECT_THAT(at, ::testing::ElementsAre(0.0F, 30.0F));
  LinearTable(1).Resample({.rows = 4, .columns = 6}, 3, 5, at);
  EXPECT_THAT(at, ::testing::ElementsAre(0.0F, 0.0F)) << "a table of one entry";
}

}  // namespace
}  // namespace dunlin::engine
