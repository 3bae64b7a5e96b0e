// SPDX-License-Identifier: Apache-2.0
// Launcher of low-rank adapters: all first products of a call, then all second ones. The first are cut into items by
// uses, pairs, ranks and rows, the second by uses, pairs, columns and rows; neither cuts a sum. A task is a run of
// items, so that a thread multiplies what it has prefetched.
#include "kernels/cpu/low_rank/low_rank.h"

#include <algorithm>
#include <cstddef>

#include "kernels/shared/low_rank_check.h"

namespace dunlin::kernels::cpu {
namespace {

// Of an item. 8 ranks of 2,048 inputs in BF16 are 32 KB, 512 columns of rank 16 are 16 KB: some microseconds.
constexpr int64_t kItemRanks = 8;
constexpr int64_t kItemColumns = 8 * kLowRankPanel;
constexpr int64_t kItemRows = 64;
// Enough that no thread waits long for another's last run.
constexpr int64_t kRunsPerThread = 8;

int64_t NumBlocks(int64_t count, int64_t of_block) {
  return (count + of_block - 1) / of_block;
}

int64_t TotalRank(const LowRankUse& use) {
  int64_t rank = 0;
  for (int32_t i = 0; i < use.num_pairs; ++i) rank += use.pairs[i].rank;
  return rank;
}

// What an item computes.
struct Item {
  const LowRankUse* use;
  int32_t pair_index;     // of the use's
  int64_t block;          // of the pair's: of ranks or of columns
  int64_t first_row;      // of the use's
  float* hidden;          // of the use's first row and the pair's first rank
  int64_t hidden_stride;  // floats

  const LowRankPair& pair() const { return use->pairs[pair_index]; }
  int32_t num_rows() const { return static_cast<int32_t>(std::min(kItemRows, use->num_rows - first_row)); }
  float* first_hidden() const { return hidden + first_row * hidden_stride; }
};

// Columns before a panel hold `rank` elements each.
const std::byte* At(const void* matrix, DType dtype, int64_t element) {
  return static_cast<const std::byte*>(matrix) + static_cast<size_t>(element) * SizeOf(dtype);
}

struct DownProduct {
  static int64_t NumBlocksOf(const LowRankPair& pair) { return NumBlocks(pair.rank, kItemRanks); }
  static const std::byte* MatrixOf(const AddLowRankParams& params, const Item& item) {
    const LowRankPair& pair = item.pair();
    return At(pair.down, pair.dtype, item.block * kItemRanks * LowRankStride(params.in_features));
  }
  static void Run(const KernelTable& kernels, const AddLowRankParams& params, const Item& item, const std::byte* next) {
    const LowRankPair& pair = item.pair();
    const int64_t rank = item.block * kItemRanks;
    kernels.low_rank_down({.in = params.in,
                           .in_stride = params.in_stride,
                           .in_features = params.in_features,
                           .rows = item.use->rows + item.first_row,
                           .num_rows = item.num_rows(),
                           .down = MatrixOf(params, item),
                           .next = next,
                           .dtype = pair.dtype,
                           .num_ranks = static_cast<int32_t>(std::min(kItemRanks, pair.rank - rank)),
                           .scale = pair.scale,
                           .hidden = item.first_hidden() + rank,
                           .hidden_stride = item.hidden_stride});
  }
};

struct UpProduct {
  static int64_t NumBlocksOf(const LowRankPair& pair) { return NumBlocks(pair.out_features, kItemColumns); }
  static const std::byte* MatrixOf(const AddLowRankParams& /*params*/, const Item& item) {
    const LowRankPair& pair = item.pair();
    return At(pair.up, pair.dtype, item.block * kItemColumns * pair.rank);
  }
  static void Run(const KernelTable& kernels, const AddLowRankParams& params, const Item& item, const std::byte* next) {
    const LowRankPair& pair = item.pair();
    const int64_t column = item.block * kItemColumns;
    kernels.low_rank_up({.hidden = item.first_hidden(),
                         .hidden_stride = item.hidden_stride,
                         .rows = item.use->rows + item.first_row,
                         .num_rows = item.num_rows(),
                         .up = MatrixOf(params, item),
                         .next = next,
                         .dtype = pair.dtype,
                         .rank = pair.rank,
                         .num_columns = std::min(kItemColumns, pair.out_features - column),
                         .out = params.out + pair.first_column + column,
                         .out_stride = params.out_stride});
  }
};

template <typename Product>
int64_t NumItems(const AddLowRankParams& params) {
  int64_t items = 0;
  for (int32_t u = 0; u < params.num_uses; ++u) {
    const LowRankUse& use = params.uses[u];
    const int64_t row_blocks = NumBlocks(use.num_rows, kItemRows);
    for (int32_t i = 0; i < use.num_pairs; ++i) items += Product::NumBlocksOf(use.pairs[i]) * row_blocks;
  }
  return items;
}

template <typename Product>
Item Find(const AddLowRankParams& params, int64_t index) {
  float* scratch = params.scratch;
  for (const LowRankUse* use = params.uses;; ++use) {
    const int64_t row_blocks = NumBlocks(use->num_rows, kItemRows);
    const int64_t stride = TotalRank(*use);
    int64_t rank = 0;
    for (int32_t i = 0; i < use->num_pairs; ++i) {
      const int64_t items = Product::NumBlocksOf(use->pairs[i]) * row_blocks;
      if (index < items) return {use, i, index / row_blocks, index % row_blocks * kItemRows, scratch + rank, stride};
      index -= items;
      rank += use->pairs[i].rank;
    }
    scratch += use->num_rows * stride;
  }
}

// REQUIRES: another item follows.
template <typename Product>
void Advance(Item* item) {
  const LowRankUse& use = *item->use;
  const LowRankPair& pair = item->pair();
  item->first_row += kItemRows;
  if (item->first_row < use.num_rows) return;
  item->first_row = 0;
  if (++item->block < Product::NumBlocksOf(pair)) return;
  item->block = 0;
  item->hidden += pair.rank;
  if (++item->pair_index < use.num_pairs) return;
  item->hidden += (use.num_rows - 1) * item->hidden_stride;
  item->pair_index = 0;
  ++item->use;
  item->hidden_stride = TotalRank(*item->use);
}

template <typename Product>
void RunItems(const KernelTable& kernels, const AddLowRankParams& params, int64_t begin, int64_t end) {
  Item item = Find<Product>(params, begin);
  for (int64_t index = begin + 1; index < end; ++index) {
    const Item done = item;
    Advance<Product>(&item);
    Product::Run(kernels, params, done, Product::MatrixOf(params, item));
  }
  Product::Run(kernels, params, item, Product::MatrixOf(params, item));
}

template <typename Product>
void RunProduct(DeviceContext* context, const AddLowRankParams& params) {
  const int64_t items = NumItems<Product>(params);
  const int64_t of_task = NumBlocks(items, kRunsPerThread * context->pool.num_threads());
  context->pool.Run(NumBlocks(items, of_task), [&](int64_t task, int) {
    RunItems<Product>(context->kernels, params, task * of_task, std::min(items, (task + 1) * of_task));
  });
}

}  // namespace

KernelStatus AddLowRank(DeviceContext* context, const AddLowRankParams& params) {
  if (!IsValid(params)) return KernelStatus::kInvalidArgument;
  if (params.num_uses == 0) return KernelStatus::kOk;
  RunProduct<DownProduct>(context, params);
  RunProduct<UpProduct>(context, params);
  return KernelStatus::kOk;
}

}  // namespace dunlin::kernels::cpu
