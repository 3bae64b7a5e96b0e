// SPDX-License-Identifier: Apache-2.0
// The tiles of a launch whose rows are in groups with a weight each, GroupedTile: where each group's begin. Every block
// counts for itself, in shared memory: some 10 bytes a group from L2, so that no kernel before has to.
#pragma once

#include "kernels/cuda/block/block_program.h"
#include "kernels/cuda/gemm/sm90/wgmma_call.h"

namespace dunlin::kernels::cuda {

template <typename Tile, typename Block>
struct WgmmaGroupTable {
  const Block& block;
  const WgmmaCall& call;
  uint32_t shared;

  DUNLIN_DEVICE uint32_t first_tile(int32_t group) const { return shared + Tile::kFirstTiles + 4 * group; }
  DUNLIN_DEVICE uint32_t first_row(int32_t group) const { return shared + Tile::kFirstRows + 4 * group; }
  DUNLIN_DEVICE int32_t Word(uint32_t address) const { return static_cast<int32_t>(block.LoadWord(address)); }
  DUNLIN_DEVICE int32_t tiles() const { return Word(first_tile(call.groups.count)); }

  DUNLIN_DEVICE ExpertRows RowsOf(int32_t group) const {
    const WgmmaGroups& groups = call.groups;
    if (groups.rows != nullptr) return groups.rows[group];
    return {group * groups.rows_each, groups.rows_each, 0};
  }
  static DUNLIN_DEVICE int32_t RowTiles(int32_t rows) { return (rows + Tile::kRows - 1) / Tile::kRows; }

  // One warp, each lane some neighbouring groups; the block's other threads wait for it at a barrier.
  DUNLIN_DEVICE void Fill() const {
    if (call.groups.rows != nullptr) block.WaitForPreceding();
    const int32_t count = call.groups.count;
    const int lane = block.thread() % kWarpLanes;
    const int32_t each = (count + kWarpLanes - 1) / kWarpLanes;
    const int32_t begin = lane * each;
    const int32_t end = begin + each < count ? begin + each : count;
    int32_t all = 0;
    for (int32_t group = begin; group < end; ++group) all += RowTiles(RowsOf(group).count) * call.column_tiles;
    int32_t before = 0;  // tiles of the lanes before
    for (int mask = 1; mask < kWarpLanes; mask *= 2) {
      const int32_t others = block.ShuffleXor(all, mask);
      if ((lane & mask) != 0) before += others;
      all += others;
    }
    for (int32_t group = begin; group < end; ++group) {
      const ExpertRows rows = RowsOf(group);
      block.StoreWord(first_tile(group), static_cast<uint32_t>(before));
      block.StoreWord(first_row(group), static_cast<uint32_t>(rows.first));
      before += RowTiles(rows.count) * call.column_tiles;
      if (group + 1 < count) continue;
      block.StoreWord(first_tile(count), static_cast<uint32_t>(before));
      block.StoreWord(first_row(count), static_cast<uint32_t>(rows.first + rows.count));
    }
  }

  // Within a group as PlaceOfTile.
  DUNLIN_DEVICE WgmmaPlace PlaceOf(int32_t tile) const {
    int32_t group = 0;  // the last of those that begin at or before the tile
    for (int32_t end = call.groups.count; end - group > 1;) {
      const int32_t middle = (group + end) / 2;
      if (Word(first_tile(middle)) > tile) {
        end = middle;
      } else {
        group = middle;
      }
    }
    const int32_t row = Word(first_row(group));
    const int32_t rows_end = Word(first_row(group + 1));
    const WgmmaPlace place = PlaceOfTile<Tile>(call, RowTiles(rows_end - row), tile - Word(first_tile(group)));
    return {row + place.row, place.column, rows_end, group};
  }
};

}  // namespace dunlin::kernels::cuda
