// SPDX-License-Identifier: Apache-2.0
// What a thread block computes of low-rank adapters' products. First product: 16 lanes for each of 8 ranks, by
// 4 rows. Second: a thread for each of 128 columns, by as many rows. Sums as kernels/api/low_rank.h has
// them: which rows, ranks or columns a tile has changes no bit.
#pragma once

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "kernels/api/low_rank.h"
#include "kernels/cuda/device/host_device.h"
#include "kernels/cuda/low_rank/low_rank_call.h"

namespace dunlin::kernels::cuda {

inline constexpr int kLowRankLanes = 16;
inline constexpr int kLowRankThreads = 128;
inline constexpr int32_t kLowRankTileRanks = kLowRankThreads / kLowRankLanes;
inline constexpr int32_t kLowRankTileColumns = kLowRankThreads;
inline constexpr int32_t kLowRankTileRows = 4;
static_assert(kLowRankTileColumns % kLowRankPanel == 0);

DUNLIN_HD inline int32_t LowRankTiles(int32_t count, int32_t of_tile) {
  return (count + of_tile - 1) / of_tile;
}
// The tiles of a product: how many ranks or columns one has, and their number in a group.
struct DownTiles {
  static constexpr int32_t kWidth = kLowRankTileRanks;
  DUNLIN_HD static int64_t Of(const LowRankGroup& group) {
    return int64_t{LowRankTiles(group.rank, kWidth)} * LowRankTiles(group.num_rows, kLowRankTileRows);
  }
};
struct UpTiles {
  static constexpr int32_t kWidth = kLowRankTileColumns;
  DUNLIN_HD static int64_t Of(const LowRankGroup& group) {
    return int64_t{LowRankTiles(group.out_features, kWidth)} * LowRankTiles(group.num_rows, kLowRankTileRows);
  }
};

// Of a launch.
template <typename Tiles>
int64_t NumLowRankTiles(const LowRankCall& call) {
  int64_t tiles = 0;
  for (int32_t i = 0; i < call.num_groups; ++i) tiles += Tiles::Of(call.groups[i]);
  return tiles;
}

// Which part of which group a block has.
struct LowRankPlace {
  const LowRankGroup* group;
  int32_t first;      // rank or column
  int32_t first_row;  // of the group
  int32_t num_rows;   // of the tile
};

// REQUIRES: tile < NumLowRankTiles<Tiles>(call).
template <typename Tiles>
DUNLIN_HD LowRankPlace FindLowRankTile(const LowRankCall& call, int64_t tile) {
  const LowRankGroup* group = call.groups;
  for (int64_t tiles = Tiles::Of(*group); tile >= tiles; tiles = Tiles::Of(*group)) {
    tile -= tiles;
    ++group;
  }
  const int32_t row_tiles = LowRankTiles(group->num_rows, kLowRankTileRows);
  const auto row = static_cast<int32_t>(tile % row_tiles) * kLowRankTileRows;
  const int32_t left = group->num_rows - row;
  return {group, static_cast<int32_t>(tile / row_tiles) * Tiles::kWidth, row,
          left < kLowRankTileRows ? left : kLowRankTileRows};
}

// The batch's row of row i of a tile; past the tile's rows that of its last one, which is computed and not stored.
DUNLIN_HD inline int64_t LowRankRow(const LowRankCall& call, const LowRankPlace& place, int32_t i) {
  const int32_t own = place.first_row + (i < place.num_rows ? i : place.num_rows - 1);
  const int16_t first = place.group->first_row;
  return place.group->consecutive ? call.rows[first] + own : call.rows[first + own];
}
DUNLIN_HD inline float* LowRankHidden(const LowRankCall& call, const LowRankPlace& place, int32_t i) {
  const LowRankGroup& group = *place.group;
  return call.scratch + group.hidden + int64_t{place.first_row + i} * group.hidden_stride;
}

template <DType kType>
DUNLIN_HD float LowRankValue(const void* matrix, int64_t element) {
  if constexpr (kType == DType::kBF16) return FromBf16(static_cast<const uint16_t*>(matrix)[element]);
  if constexpr (kType == DType::kF16) return FromFp16(static_cast<const uint16_t*>(matrix)[element]);
  if constexpr (kType == DType::kF32) return static_cast<const float*>(matrix)[element];
}

// One lane of a rank's sums for kRows rows of a tile. Past the rank: what the last one has.
template <DType kType, int kRows>
DUNLIN_HD void SumDownLane(const LowRankCall& call, const LowRankPlace& place, int32_t rank, int lane, float* sums) {
  const int32_t last = place.group->rank - 1;
  const int64_t row_of_matrix = int64_t{rank < last ? rank : last} * LowRankStride(call.in_features);
  const float* in[kRows];
  for (int i = 0; i < kRows; ++i) {
    in[i] = call.in + LowRankRow(call, place, i) * call.in_stride;
    sums[i] = 0.0F;
  }
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
  for (int32_t k = lane; k < call.in_features; k += kLowRankLanes) {
    const float weight = LowRankValue<kType>(place.group->down, row_of_matrix + k);
    DUNLIN_UNROLL
    for (int i = 0; i < kRows; ++i) sums[i] = fmaf(in[i][k], weight, sums[i]);
  }
}

// A column of the tile's rows.
template <DType kType, int kRows>
DUNLIN_HD void AddUpColumn(const LowRankCall& call, const LowRankPlace& place, int32_t thread) {
  const LowRankGroup& group = *place.group;
  const int32_t column = place.first + thread;
  if (column >= group.out_features) return;
  const int64_t panel = int64_t{column} / kLowRankPanel * group.rank * kLowRankPanel + column % kLowRankPanel;
  const float* hidden[kRows];
  float sums[kRows];
  for (int i = 0; i < kRows; ++i) {
    hidden[i] = LowRankHidden(call, place, i < place.num_rows ? i : place.num_rows - 1);
    sums[i] = 0.0F;
  }
#ifdef __CUDA_ARCH__
#pragma unroll 4
#endif
  for (int32_t r = 0; r < group.rank; ++r) {
    const float weight = LowRankValue<kType>(group.up, panel + int64_t{r} * kLowRankPanel);
    DUNLIN_UNROLL
    for (int i = 0; i < kRows; ++i) sums[i] = fmaf(hidden[i][r], weight, sums[i]);
  }
  for (int i = 0; i < kRows; ++i) {
    if (i >= place.num_rows) break;
    call.out[LowRankRow(call, place, i) * call.out_stride + group.first_column + column] += sums[i];
  }
}

// Calls function with the dtype of the tile's matrices and with 1 or kLowRankTileRows, as integral constants.
template <typename Function>
DUNLIN_HD void WithLowRankTile(const LowRankPlace& place, const Function& function) {
  const auto with_rows = [&](auto dtype) {
    if (place.num_rows == 1) {
      function(dtype, std::integral_constant<int, 1>());
    } else {
      function(dtype, std::integral_constant<int, kLowRankTileRows>());
    }
  };
  switch (static_cast<DType>(place.group->dtype)) {
    case DType::kBF16:
      return with_rows(std::integral_constant<DType, DType::kBF16>());
    case DType::kF16:
      return with_rows(std::integral_constant<DType, DType::kF16>());
    default:
      return with_rows(std::integral_constant<DType, DType::kF32>());
  }
}

}  // namespace dunlin::kernels::cuda
