// SPDX-License-Identifier: Apache-2.0
// One launch of the wgmma GEMM, out = in W^T, and how its tiles are given to blocks. Blocks are persistent: block b
// takes tiles b, b + blocks, ... A row's sum is one chain over K in ascending order, whatever the tile shape: on an
// H100 wgmma of every width gave the same bits (docs/gpu.md), so tiles may be chosen by the number of rows.
#pragma once

#include "kernels/cuda/gemm/sm80/tile_call.h"
#include "kernels/cuda/sm90/tensor_map.h"

namespace dunlin::kernels::cuda {

// 128 bytes of K in each of kStages stages, 64 rows of the inputs per warpgroup that multiplies, kColumns outputs.
template <typename OperandFormat, int kWarpgroupCount, int kColumnCount, int kStageCount>
struct WgmmaTile {
  using Format = OperandFormat;
  static constexpr int kWarpgroups = kWarpgroupCount;
  static constexpr int kColumns = kColumnCount;
  static constexpr int kStages = kStageCount;
  static constexpr int kRows = 64 * kWarpgroups;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);  // the last warpgroup loads
  static constexpr int kSums = kColumns / 2;                // of a thread
  static constexpr uint32_t kInBytes = kRows * kTileBytes;
  static constexpr uint32_t kStageBytes = kInBytes + kColumns * kTileBytes;
  static constexpr uint32_t kBarriers = kStages * kStageBytes;  // after the stages: full and empty
  static constexpr uint32_t kSharedBytes = kBarriers + 2 * 8 * kStages + 1024;
  // With two warpgroups that multiply, 65,536 registers are 168 for each of 384 threads: 24 of those that load, 240 of
  // the others. With one, 256 threads have 256 each.
  static constexpr bool kMovesRegisters = kWarpgroups > 1;
  static_assert(kSharedBytes <= 227 * 1024);
  // Inputs on the M side of the products.
  static constexpr bool kSwapped = false;
  static constexpr int kProductColumns = kColumns;
  static constexpr int kBlocks = 1;  // per multiprocessor
};

// For few rows, whose products wait for the weights' bytes: weights on the M side, kRowCount inputs (8, 16, 32 or 64)
// on the N side, one warpgroup that multiplies and one warp that loads. A product has 64 outputs. With fewer in a tile
// its other rows are whatever follows in shared memory, and their sums are not stored: so narrow weights fill the
// device, too. Two blocks share a multiprocessor, each with up to 98 KB of weights in flight.
template <typename OperandFormat, int kRowCount, int kColumnCount, int kStageCount>
struct SwappedTile {
  using Format = OperandFormat;
  static constexpr int kWarpgroups = 1;
  static constexpr int kRows = kRowCount;
  static constexpr int kColumns = kColumnCount;
  static constexpr int kStages = kStageCount;
  static constexpr int kThreads = 128 + 32;
  static constexpr int kSums = kRows / 2;
  static constexpr uint32_t kInBytes = kRows * kTileBytes;
  static constexpr uint32_t kStageBytes = kInBytes + kColumns * kTileBytes;
  static constexpr uint32_t kBarriers = kStages * kStageBytes + (64 - kColumns) * kTileBytes;
  static constexpr uint32_t kSharedBytes = kBarriers + 2 * 8 * kStages + 1024;
  static constexpr bool kMovesRegisters = false;
  static_assert(kRows % 8 == 0 && kColumns <= 64 && kColumns % 16 == 0);
  static constexpr bool kSwapped = true;
  static constexpr int kProductColumns = kRows;
  static constexpr int kBlocks = 2;
  static_assert(kBlocks * (kSharedBytes + 1024) <= 228 * 1024);  // 1 KB of each block is the system's
};

struct WgmmaCall {
  TensorMap in;      // boxes of kRows rows by 128 bytes, swizzled
  TensorMap weight;  // boxes of kColumns rows by 128 bytes, swizzled
  int32_t num_rows;
  int32_t depth_tiles;   // of 128 bytes
  int32_t row_tiles;     // of kRows
  int32_t column_tiles;  // of kColumns
  int32_t raster;        // row tiles that are finished for all columns before the next: they share weights in L2
  bool pairs;            // rows of out and residual are 8-byte aligned
  TileStore store;
};

struct WgmmaPlace {
  int32_t row;
  int32_t column;
};

// Tiles run through `raster` row tiles of a column, then the next column.
template <typename Tile>
DUNLIN_DEVICE WgmmaPlace PlaceOfTile(const WgmmaCall& call, int32_t tile) {
  const int32_t band_tiles = call.raster * call.column_tiles;
  const int32_t band = tile / band_tiles;
  const int32_t within = tile - band * band_tiles;
  const int32_t left = call.row_tiles - band * call.raster;
  const int32_t rows = left < call.raster ? left : call.raster;
  const int32_t column = within / rows;
  const int32_t row = band * call.raster + within - column * rows;
  return {row * Tile::kRows, column * Tile::kColumns};
}

}  // namespace dunlin::kernels::cuda
