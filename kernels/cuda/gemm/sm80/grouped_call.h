// SPDX-License-Identifier: Apache-2.0
// One launch of the tile GEMM on several groups of rows, each with a weight of its own: the experts of a mixture, whose
// rows are known on the device alone, or the heads of a batch. A block computes 64 outputs of up to 64 rows of one
// group over all of K, in the order of a prefill row's product. Pointers are device memory.
#pragma once

#include "kernels/api/experts.h"
#include "kernels/cuda/gemm/sm80/coded_block.h"
#include "kernels/cuda/gemm/sm80/tile_block.h"

namespace dunlin::kernels::cuda {

// As many as a block has threads, which count the groups' rows; the pointers of so many take 2 KB of a kernel's 4 KB of
// parameters.
inline constexpr int32_t kGroupsPerLaunch = kBlockThreads;

struct GroupedCall {
  TileCall tile;  // one slice; in, scales and outputs of row 0, num_rows of all groups, weight and bias of no group
  int32_t num_groups;
  const ExpertRows*
      groups;  // [num_groups], or null: each has rows_per_group rows, group g's from g * rows_per_group on
  int32_t rows_per_group;
  int64_t weight_scales_offset;  // bytes from a weight's data to its scales; FP8
  int64_t out_group_stride;      // floats that are added to a group's rows of out, with groups null; else rows continue
  const unsigned char* weights[kGroupsPerLaunch];
  const float* biases[kGroupsPerLaunch];  // or null
};

// A block's group, and the first of its rows within the group.
struct GroupPlace {
  int32_t group;  // -1: the launch has more blocks than the groups need
  int32_t row;
};

DUNLIN_HD inline ExpertRows RowsOfGroup(const GroupedCall& call, int32_t group) {
  if (call.groups != nullptr) return call.groups[group];
  return {group * call.rows_per_group, call.rows_per_group, 0};
}

// row_block: of the launch, counted over the groups. shared: 4 bytes per thread; to be read no more after a barrier.
DUNLIN_HD inline GroupPlace FindGroup(const GroupedCall& call, int32_t rows_per_block, int32_t row_block,
                                      unsigned char* shared) {
  auto* counts = reinterpret_cast<int32_t*>(shared);
  ForThreads([&](int thread) {
    const int32_t rows = thread < call.num_groups ? RowsOfGroup(call, thread).count : 0;
    counts[thread] = (rows + rows_per_block - 1) / rows_per_block;
  });
  SyncBlock();
  GroupPlace place{-1, 0};
  for (int32_t group = 0, left = row_block; group < call.num_groups; ++group) {
    if (left < counts[group]) {
      place = {group, left * rows_per_block};
      break;
    }
    left -= counts[group];
  }
  SyncBlock();
  return place;
}

// The group's product as a call of its own.
DUNLIN_HD inline TileCall TileCallOf(const GroupedCall& call, int32_t group) {
  const ExpertRows rows = RowsOfGroup(call, group);
  TileCall tile = call.tile;
  const unsigned char* weight = call.weights[group];
  if (tile.coded.format.number_bytes > 0) {
    tile.coded.data = const_cast<unsigned char*>(weight);
  } else {
    tile.weight = weight;
  }
  tile.in += rows.first * tile.row_bytes;
  tile.num_rows = rows.count;
  const auto* scales = reinterpret_cast<const float*>(weight + call.weight_scales_offset);
  if (tile.weight_scales != nullptr) {
    tile.weight_scales = scales;
    tile.in_scales += rows.first;
  }
  TileStore& store = tile.store;
  if (store.weight_scales != nullptr) {
    store.weight_scales = scales;
    store.in_scales += rows.first;
  }
  if (store.bias != nullptr) store.bias = call.biases[group];
  if (store.next != nullptr) {
    store.next += rows.first * store.next_row_bytes;
  } else {
    store.out += call.groups != nullptr ? rows.first * store.out_stride : group * call.out_group_stride;
  }
  return tile;
}

template <typename Block>
DUNLIN_HD Block MakeBlock(const TileCall& call, const TilePlace& place, unsigned char* shared) {
  if constexpr (requires { typename Block::Base; }) {
    return Block{{call, place, {shared}}};
  } else {
    return Block{call, place, {shared}};
  }
}

// index: of the launch's blocks. Those that read the same rows are adjacent.
template <typename Block>
DUNLIN_HD void RunGroupedGemm(const GroupedCall& call, int64_t index, unsigned char* shared) {
  const int64_t column_tiles = (call.tile.columns + kTileColumns - 1) / kTileColumns;
  const auto row_block = static_cast<int32_t>(index / column_tiles);
  const GroupPlace place = FindGroup(call, Block::kRowGroups * kGroupRows, row_block, shared);
  if (place.group < 0) return;
  const TileCall tile = TileCallOf(call, place.group);
  RunGemmBlock(MakeBlock<Block>(tile, {0, place.row, index % column_tiles * kTileColumns}, shared));
}

}  // namespace dunlin::kernels::cuda
