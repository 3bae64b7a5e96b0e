// SPDX-License-Identifier: Apache-2.0
// Tiles in shared memory: every element has its own address, and no access of the kernels has bank conflicts.
#include "kernels/cuda/block/tile_layout.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/kernels/cuda/block/bank_turns.h"

namespace dunlin::kernels::cuda {
namespace {

template <typename Layout>
void ExpectOnePlaceEach() {
  std::set<int> places;
  for (int row = 0; row < kTileRows; ++row) {
    for (int dim = 0; dim < kTileDims; ++dim) {
      const int at = Layout::Element(row, dim);
      EXPECT_EQ(at % Layout::kElementBytes, 0);
      EXPECT_EQ(at / kPieceBytes, Layout::Piece(row, dim / Layout::kPieceElements) / kPieceBytes);
      places.insert(at);
    }
  }
  EXPECT_EQ(places.size(), static_cast<size_t>(kTileRows * kTileDims));
  EXPECT_EQ(*places.rbegin(), Layout::kBytes - Layout::kElementBytes);
}

TEST(TileLayout, ElementsDoNotOverlap) {
  ExpectOnePlaceEach<TileLayout<2>>();
  ExpectOnePlaceEach<TileLayout<4>>();
}

// ldmatrix serves eight rows of 16 bytes at once, as do 16-byte accesses of eight lanes.
TEST(TileLayout, MatrixLoadsHaveNoBankConflicts) {
  using Layout = TileLayout<2>;
  for (int first = 0; first < 32; first += 8) {
    for (int part = 0; part < 4; ++part) {
      // Queries and values: rows lane % 16; keys: rows lane % 8 + lane / 16 * 8. tile_products.h.
      EXPECT_EQ(Turns(first, 8, 16, [&](int lane) { return Layout::Piece(lane % 16, part * 2 + lane / 16); }), 1);
      EXPECT_EQ(Turns(first, 8, 16,
                      [&](int lane) { return Layout::Piece(lane % 8 + lane / 16 * 8, part * 2 + lane / 8 % 2); }),
                1);
    }
    // Copies into the tile: adjacent pieces of a row.
    EXPECT_EQ(Turns(first, 8, 16, [](int lane) { return Layout::Piece(lane / 8, lane % 8); }), 1);
  }
}

TEST(TileLayout, Fp32AccessesHaveNoBankConflicts) {
  using Layout = TileLayout<4>;
  for (int first = 0; first < 32; first += 8) {
    for (int piece = 0; piece < 16; ++piece) {
      EXPECT_EQ(Turns(first, 8, 16, [&](int lane) { return Layout::Piece(lane / 4, piece); }), 1) << "queries, weights";
      EXPECT_EQ(Turns(first, 8, 16, [&](int lane) { return Layout::Piece(8 + lane % 4 * 2 + 1, piece); }), 1) << "keys";
    }
    EXPECT_EQ(Turns(first, 8, 16, [](int lane) { return Layout::Piece(lane / 16, lane % 16); }), 1) << "copies";
  }
  for (int n = 0; n < 8; ++n) {
    EXPECT_EQ(Turns(0, 32, 8, [&](int lane) { return Layout::Element(5, n * 8 + lane % 4 * 2); }), 1) << "values";
  }
}

// Without the swizzle the same loads would take eight times as long: the conflicts are counted.
TEST(TileLayout, UnswizzledRowsWouldConflict) {
  EXPECT_EQ(Turns(0, 8, 16, [](int lane) { return lane % 16 * TileLayout<2>::kRowBytes; }), 8);
}

TEST(ProductSlots, CoverEachRowAndColumnOnce) {
  std::set<std::pair<int, int>> slots;
  for (int lane = 0; lane < 32; ++lane) {
    for (int i = 0; i < 4; ++i) slots.insert({ProductSlot::Row(lane, i), ProductSlot::Column(lane, i)});
  }
  EXPECT_EQ(slots.size(), 128U);
  EXPECT_EQ(*slots.rbegin(), (std::pair{15, 7}));
}

}  // namespace
}  // namespace dunlin::kernels::cuda
