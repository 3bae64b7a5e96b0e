// SPDX-License-Identifier: Apache-2.0
// Launcher of low-rank adapters: all first products of a call, then all second ones. The first are cut by uses, pairs,
// ranks and rows, the second by uses, pairs, columns and rows; neither cuts a sum.
#include "kernels/cpu/low_rank/low_rank.h"

#include <algorithm>
#include <cstddef>

#include "kernels/shared/low_rank_check.h"

namespace dunlin::kernels::cpu {
namespace {

// Of a task. 8 ranks of 2,048 inputs in BF16 are 32 KB, 512 columns of rank 16 are 16 KB: some microseconds.
constexpr int64_t kTaskRanks = 8;
constexpr int64_t kTaskColumns = 8 * kLowRankPanel;
constexpr int64_t kTaskRows = 64;

int64_t NumBlocks(int64_t count, int64_t of_block) {
  return (count + of_block - 1) / of_block;
}

int64_t TotalRank(const LowRankUse& use) {
  int64_t rank = 0;
  for (int32_t i = 0; i < use.num_pairs; ++i) rank += use.pairs[i].rank;
  return rank;
}

// Both products are cut alike: `of_pair` says into how many blocks besides those of rows.
using BlocksOf = int64_t (*)(const LowRankPair&);
int64_t RankBlocks(const LowRankPair& pair) {
  return NumBlocks(pair.rank, kTaskRanks);
}
int64_t ColumnBlocks(const LowRankPair& pair) {
  return NumBlocks(pair.out_features, kTaskColumns);
}

int64_t NumTasks(const AddLowRankParams& params, BlocksOf of_pair) {
  int64_t tasks = 0;
  for (int32_t u = 0; u < params.num_uses; ++u) {
    const LowRankUse& use = params.uses[u];
    for (int32_t i = 0; i < use.num_pairs; ++i) tasks += of_pair(use.pairs[i]) * NumBlocks(use.num_rows, kTaskRows);
  }
  return tasks;
}

// What a task computes.
struct Place {
  const LowRankUse* use;
  const LowRankPair* pair;
  int64_t block;          // of those of `of_pair`
  int64_t first_row;      // of the use
  int32_t num_rows;       // of the task
  float* hidden;          // of that row and the pair's first rank
  int64_t hidden_stride;  // floats
};

Place Find(const AddLowRankParams& params, BlocksOf of_pair, int64_t task) {
  float* scratch = params.scratch;
  for (const LowRankUse* use = params.uses;; ++use) {
    const int64_t row_blocks = NumBlocks(use->num_rows, kTaskRows);
    const int64_t stride = TotalRank(*use);
    int64_t rank = 0;
    for (int32_t i = 0; i < use->num_pairs; ++i) {
      const LowRankPair& pair = use->pairs[i];
      const int64_t tasks = of_pair(pair) * row_blocks;
      if (task < tasks) {
        const int64_t first_row = task % row_blocks * kTaskRows;
        const auto num_rows = static_cast<int32_t>(std::min(kTaskRows, use->num_rows - first_row));
        return {use, &pair, task / row_blocks, first_row, num_rows, scratch + first_row * stride + rank, stride};
      }
      task -= tasks;
      rank += pair.rank;
    }
    scratch += use->num_rows * stride;
  }
}

// Columns before a panel hold `rank` elements each.
const std::byte* At(const void* matrix, DType dtype, int64_t element) {
  return static_cast<const std::byte*>(matrix) + static_cast<size_t>(element) * SizeOf(dtype);
}

void RunDown(const KernelTable& kernels, const AddLowRankParams& params, int64_t task) {
  const Place place = Find(params, RankBlocks, task);
  const LowRankPair& pair = *place.pair;
  const int64_t rank = place.block * kTaskRanks;
  kernels.low_rank_down({.in = params.in,
                         .in_stride = params.in_stride,
                         .in_features = params.in_features,
                         .rows = place.use->rows + place.first_row,
                         .num_rows = place.num_rows,
                         .down = At(pair.down, pair.dtype, rank * LowRankStride(params.in_features)),
                         .dtype = pair.dtype,
                         .num_ranks = static_cast<int32_t>(std::min(kTaskRanks, pair.rank - rank)),
                         .scale = pair.scale,
                         .hidden = place.hidden + rank,
                         .hidden_stride = place.hidden_stride});
}

void RunUp(const KernelTable& kernels, const AddLowRankParams& params, int64_t task) {
  const Place place = Find(params, ColumnBlocks, task);
  const LowRankPair& pair = *place.pair;
  const int64_t column = place.block * kTaskColumns;
  kernels.low_rank_up({.hidden = place.hidden,
                       .hidden_stride = place.hidden_stride,
                       .rows = place.use->rows + place.first_row,
                       .num_rows = place.num_rows,
                       .up = At(pair.up, pair.dtype, column * pair.rank),
                       .dtype = pair.dtype,
                       .rank = pair.rank,
                       .num_columns = std::min(kTaskColumns, pair.out_features - column),
                       .out = params.out + pair.first_column + column,
                       .out_stride = params.out_stride});
}

}  // namespace

KernelStatus AddLowRank(DeviceContext* context, const AddLowRankParams& params) {
  if (!IsValid(params)) return KernelStatus::kInvalidArgument;
  if (params.num_uses == 0) return KernelStatus::kOk;
  context->pool.Run(NumTasks(params, RankBlocks), [&](int64_t task, int) { RunDown(context->kernels, params, task); });
  context->pool.Run(NumTasks(params, ColumnBlocks), [&](int64_t task, int) { RunUp(context->kernels, params, task); });
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
