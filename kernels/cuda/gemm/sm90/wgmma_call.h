// SPDX-License-Identifier: Apache-2.0
// One launch of the wgmma GEMM, out = in W^T, and how its tiles are given to blocks. Blocks are persistent: block b
// takes tiles b, b + blocks, ... A row's sum is one chain over K in ascending order, whatever the tile shape: on an
// H100 wgmma of every width gave the same bits (docs/gpu.md), so tiles may be chosen by the number of rows.
#pragma once

#include <type_traits>

#include "kernels/api/experts.h"
#include "kernels/cuda/gemm/sm80/tile_call.h"
#include "kernels/cuda/sm90/tensor_map.h"
#include "kernels/cuda/sm90/wgmma.h"

namespace dunlin::kernels::cuda {

// Operands of 16 bits, BF16 or FP16 as WgmmaCall::fp16 says: one kernel, in which each has a loop over K of its own.
struct Bf16OrFp16 {};

// E4M3 codes with a scale for each 128 of a row, which come with a stage's codes.
struct E4M3Blocks : E4M3Format {};

// What the tiles share: the operands' format, and the FP32 scales of a stage, none but of E4M3Blocks.
template <typename Operand, int kRowCount, int kColumnCount>
struct WgmmaOperands {
  static constexpr bool kCoded = false;
  static constexpr bool kPaired = false;
  static constexpr bool kGrouped = false;
  static constexpr bool kBlockScales = std::is_same_v<Operand, E4M3Blocks>;
  static constexpr bool kRowScales = std::is_same_v<Operand, E4M3Format>;  // of rows and of outputs, in TileStore
  static constexpr bool kE4M3 = std::is_base_of_v<E4M3Format, Operand>;
  using Format = std::conditional_t<kBlockScales, E4M3Format, Operand>;
  static constexpr int kRows = kRowCount;
  static constexpr int kColumns = kColumnCount;
  static constexpr uint32_t kInBytes = kRows * kTileBytes;
  static constexpr uint32_t kStageBytes = kInBytes + kColumns * kTileBytes;
  static constexpr uint32_t kInScaleBytes = kBlockScales ? RoundUpTo(int64_t{4} * kRows, 128) : 0;
  static constexpr uint32_t kScaleBytes = kInScaleBytes + (kBlockScales ? RoundUpTo(int64_t{4} * kColumns, 128) : 0);
  static constexpr uint32_t kLoadedBytes = kStageBytes + (kBlockScales ? (kRows + kColumns) * 4 : 0);
};

// 128 bytes of K in each of kStages stages, 64 rows of the inputs per warpgroup that multiplies, kColumns outputs.
template <typename Operand, int kWarpgroupCount, int kColumnCount, int kStageCount>
struct WgmmaTile : WgmmaOperands<Operand, 64 * kWarpgroupCount, kColumnCount> {
  using Operands = WgmmaOperands<Operand, 64 * kWarpgroupCount, kColumnCount>;
  static constexpr int kWarpgroups = kWarpgroupCount;
  static constexpr int kStages = kStageCount;
  static constexpr int kThreads = 128 * (kWarpgroups + 1);                          // the last warpgroup loads
  static constexpr int kSums = kColumnCount / 2;                                    // of a thread
  static constexpr int kProductColumns = kColumnCount;                              // the N side
  static constexpr bool kSwapped = false;                                           // inputs are the M side
  static constexpr int kBlocks = 1;                                                 // per multiprocessor
  static constexpr uint32_t kScales = kStages * Operands::kStageBytes;              // after the stages
  static constexpr uint32_t kBarriers = kScales + kStages * Operands::kScaleBytes;  // full and empty
  static constexpr uint32_t kSharedBytes = kBarriers + 2 * 8 * kStages + 1024;
  // With two warpgroups that multiply, 65,536 registers are 168 for each of 384 threads: 24 of those that load, 240 of
  // the others. With one, 256 threads have 256 each.
  static constexpr bool kMovesRegisters = kWarpgroups > 1;
  static constexpr int kLoadRegisters = 24;
  static constexpr int kMultiplyRegisters = 240;
  static_assert(kSharedBytes <= 227 * 1024);
};

// For few rows, whose products wait for the weights' bytes: weights on the M side, kRowCount inputs (8, 16, 32 or 64)
// on the N side, one warpgroup that multiplies and one warp that loads. A product has 64 outputs. With fewer in a tile
// its other rows are whatever follows in shared memory, and their sums are not stored: so narrow weights fill the
// device, too. Two blocks share a multiprocessor, each with up to 96 KB of weights in flight. kReserved: bytes of
// shared memory that are left for something else.
template <typename Operand, int kRowCount, int kColumnCount, uint32_t kReserved = 0>
struct SwappedTile : WgmmaOperands<Operand, kRowCount, kColumnCount> {
  using Operands = WgmmaOperands<Operand, kRowCount, kColumnCount>;
  static constexpr int kWarpgroups = 1;
  static constexpr int kThreads = 128 + 32;
  static constexpr int kSums = kRowCount / 2;
  static constexpr int kProductColumns = kRowCount;
  static constexpr bool kSwapped = true;
  static constexpr int kBlocks = 2;
  static constexpr bool kMovesRegisters = false;
  // A multiprocessor has 228 KB, of which 1 KB of each block is the system's.
  static constexpr uint32_t kBytes = 228 * 1024 / kBlocks - 1024 - kReserved;
  static constexpr uint32_t kTailBytes = (64 - kColumnCount) * kTileBytes;  // of the last stage's product
  static constexpr int kStagesMax = 24;
  static constexpr int kFitting = (kBytes - 1024 - kTailBytes) / (Operands::kStageBytes + Operands::kScaleBytes + 16);
  static constexpr int kStages = kFitting < kStagesMax ? kFitting : kStagesMax;
  static constexpr uint32_t kScales = kStages * Operands::kStageBytes + kTailBytes;
  static constexpr uint32_t kBarriers = kScales + kStages * Operands::kScaleBytes;
  static constexpr uint32_t kSharedBytes = kBarriers + 2 * 8 * kStages + 1024;
  static_assert(kRowCount % 8 == 0 && kColumnCount <= 64 && kColumnCount % 16 == 0 && kSharedBytes <= kBytes);
};

// Weights of integer codes: as SwappedTile, but the M side is expanded to BF16 in registers. A stage has 64 of K, a
// tile of CodedView: the inputs, then the codes of 64 rows and the numbers of their groups, in the space that the
// largest need.
template <int kRowCount>
struct CodedTile {
  using Format = Bf16Format;
  static constexpr bool kCoded = true;
  static constexpr bool kPaired = false;
  static constexpr bool kGrouped = false;
  static constexpr bool kBlockScales = false;
  static constexpr bool kRowScales = false;
  static constexpr bool kE4M3 = false;
  static constexpr bool kSwapped = true;
  static constexpr int kRows = kRowCount;
  static constexpr int kColumns = 64;
  static constexpr int kWarpgroups = 1;
  static constexpr int kThreads = 128 + 32;
  static constexpr int kSums = kRows / 2;
  // Expanding takes as long as loading: more warps hide each other's latency.
  static constexpr int kBlocks = kRows <= 16 ? 4 : 2;
  static constexpr uint32_t kInBytes = kRows * kTileBytes;
  static constexpr uint32_t kCodeBytes = kColumns * kCodeTileBytesMax;
  static constexpr uint32_t kStageBytes = kInBytes + kCodeBytes + kColumns * kNumberBytesMax;
  static constexpr uint32_t kBytes = 228 * 1024 / kBlocks - 1024;
  static constexpr int kStages = (kBytes - 1024) / (kStageBytes + 16);
  static constexpr uint32_t kBarriers = kStages * kStageBytes;
  static constexpr uint32_t kSharedBytes = kBarriers + 2 * 8 * kStages + 1024;
  static_assert(kTileBytes == 2 * kCodeTile && kStageBytes % 1024 == 0 && kSharedBytes <= kBytes);
};

// Outputs of a tile that are the two of eight pairs (wgmma_pairs.h).
inline constexpr int kPairedOutputs = 16;

// A tile of either kind with paired outputs: its weights come in the order of wgmma_pairs.h.
template <typename Tile>
struct PairedTile : Tile {
  static constexpr bool kPaired = true;
};

// Groups of one launch, which all tables in shared memory hold: two words each, and one more of both.
inline constexpr int32_t kWgmmaGroupsMax = 512;
inline constexpr uint32_t kGroupBytes = RoundUpTo(2 * 4 * (kWgmmaGroupsMax + 1), 16);

// A tile of either kind for rows in groups with a weight each; a SwappedTile has kGroupBytes reserved.
template <typename Tile>
struct GroupedTile : Tile {
  static constexpr bool kGrouped = true;
  // Who loads looks for the groups of tiles, too.
  static constexpr int kLoadRegisters = 40;
  static constexpr int kMultiplyRegisters = 232;
  // After the barriers: the first tile of each group and the number of all, then the first row of each and their end.
  static constexpr uint32_t kFirstTiles = Tile::kBarriers + 2 * 8 * Tile::kStages;
  static constexpr uint32_t kFirstRows = kFirstTiles + 4 * (kWgmmaGroupsMax + 1);
  static constexpr uint32_t kSharedBytes = Tile::kSharedBytes + kGroupBytes;
  static_assert(kSharedBytes <= (Tile::kSwapped ? 228 * 1024 / Tile::kBlocks - 1024 : 227 * 1024));
};

// The groups of a launch. Weights, their scales and biases lie at equal distances.
struct WgmmaGroups {
  const ExpertRows* rows;  // [count], in order and without gaps, or null: each has rows_each
  int32_t count;           // 0: the launch has no groups
  int32_t rows_each;
  int64_t scale_stride;  // floats between the row scales of two weights
  int64_t bias_stride;   // floats
  int64_t out_skip;      // floats that rows of `out` lie further with each group, beyond out_stride for each row
};

struct alignas(8) Float2 {
  float values[2];
};

struct WgmmaCall {
  TensorMap in;  // boxes of kRows rows by 128 bytes, swizzled
  // The weight, and its scales below, may be read before the preceding kernel has ended where TileCall::overlaps says
  // so.
  CodedView coded;   // of integer codes; weight is unused then
  TensorMap weight;  // boxes of kColumns rows by 128 bytes, swizzled
  // Of E4M3Blocks: [blocks of 128 of K, rows], boxes of one block. Row r of the inputs is number in_scale_lead + r.
  TensorMap in_scales;
  TensorMap weight_scales;
  int32_t in_scale_lead;
  int32_t num_rows;
  int32_t depth_tiles;   // of 128 bytes
  int32_t row_tiles;     // of kRows
  int32_t column_tiles;  // of kColumns
  int32_t raster;        // row tiles that are finished for all columns before the next: they share weights in L2
  bool fp16;             // of Bf16OrFp16
  bool pairs;            // rows of out and residual are 8-byte aligned
  int32_t span_eights;   // of PairedTile: eights of pairs in a span; weight has boxes of whole or parts of spans then
  PairedOutputs paired;
  TileStore store;     // of GroupedTile: scales and bias of the first group
  WgmmaGroups groups;  // of GroupedTile
};

struct WgmmaPlace {
  int32_t row;
  int32_t column;
  int32_t rows_end;  // rows of the tile from there on are none of its product
  int32_t group;     // of GroupedTile
};

// Tiles of row_tiles by call.column_tiles run through `raster` row tiles of a column, then the next column.
template <typename Tile>
DUNLIN_DEVICE WgmmaPlace PlaceOfTile(const WgmmaCall& call, int32_t row_tiles, int32_t tile) {
  const int32_t band_tiles = call.raster * call.column_tiles;
  const int32_t band = tile / band_tiles;
  const int32_t within = tile - band * band_tiles;
  const int32_t left = row_tiles - band * call.raster;
  const int32_t rows = left < call.raster ? left : call.raster;
  const int32_t column = within / rows;
  const int32_t row = band * call.raster + within - column * rows;
  return {row * Tile::kRows, column * Tile::kColumns, call.num_rows, 0};
}

}  // namespace dunlin::kernels::cuda
