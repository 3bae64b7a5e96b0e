// SPDX-License-Identifier: Apache-2.0
// FLASH on the CPU: tiles of 128 keys at absolute positions, blocks of up to 144 packed rows, 288 or 432 where a table
// widens tiles, a block fits the cache and there are blocks enough, running maximum and sum, O rescaled as it is loaded
// for the next tile. S never leaves a buffer of 512 bytes a row. Work is split over sequences, KV heads and row blocks,
// never over keys. Source: Dao et al. 2022, algorithm 1; Milakov & Gimelshein 2018.
#include <algorithm>
#include <limits>

#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/arena.h"
#include "kernels/cpu/attention/query_block.h"
#include "kernels/cpu/attention/schedule.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

// One worker's buffers, over a piece of the workspace. At head_dim 128 and 144 rows: 72 + 72 + 16 + 72 + 12 KB.
struct FlashScratch {
  FlashScratch(Arena arena, const WorkspaceNeed& need)
      : rows(FlashBlockRows(need)),
        q(arena.Take<std::byte>(rows * QueryRowBytes(need.head_dim))),
        s(arena.Take<float>(rows * kTileKeys)),
        wide(arena.Take<float>(WidePanelFloats(need.head_dim))),
        made_values(arena.Take<std::byte>(need.made_value_bytes)),
        o(arena.Take<float>(rows * PaddedDim(need.v_head_dim))),
        row_max(arena.Take<float>(rows)),
        lane_sum(arena.Take<float>(rows * kLanes)),
        alpha(arena.Take<float>(rows)),
        begin(arena.Take<int32_t>(rows)),
        valid(arena.Take<int32_t>(rows)),
        bytes(arena.used()) {}

  int64_t rows;
  std::byte* q;
  float* s;  // then P
  float* wide;
  std::byte* made_values;
  float* o;
  float* row_max;
  float* lane_sum;
  float* alpha;
  int32_t* begin;
  int32_t* valid;
  size_t bytes;
};

// Prefetches a task's output rows and the next task's query rows, a share beside the scores of each tile.
class RowsBesideScores {
 public:
  RowsBesideScores(const AttentionCall& call, const Task& task, const Task& next, int num_shares)
      : out_(call, call.out, call.v_head_dim(), call.Sequence(task.item.sequence).out_offset, task.kv_head,
             task.item.first_row, task.item.num_rows),
        query_(call, call.query, call.head_dim(), call.Sequence(next.item.sequence).query_offset, next.kv_head,
               next.item.first_row, next.item.num_rows),
        out_share_((task.item.num_rows + num_shares - 1) / num_shares),
        query_share_((next.item.num_rows + num_shares - 1) / num_shares) {}

  void PrefetchShare() {
    out_.Prefetch<true>(out_share_);
    query_.Prefetch<false>(query_share_);
  }

 private:
  RowPrefetcher<std::byte> out_;
  RowPrefetcher<const std::byte> query_;
  int out_share_;
  int query_share_;
};

// The blocks of a tile: its keys', then its values'.
struct TileBlockList {
  const std::byte* blocks[2 * kMaxTilePages];
};

// P of block row `row` takes the place of S. Where S is made of a few rows at a time it stands at the end, and P, half
// as wide, before it.
std::byte* ProbabilityRow(const AttentionCall& call, const FlashScratch& scratch, int row) {
  return reinterpret_cast<std::byte*>(scratch.s) + row * int64_t{kTileKeys} * (call.ops->bf16_pairs ? 2 : 4);
}

// Scores and softmax of the tile that starts at key `first`; returns the rows that see it. next: the tile to prefetch.
TileRows ScoreTile(const AttentionCall& call, const QueryBlock& block, int32_t first, const TileBlockList& tile,
                   const TileBlockList& next, const FlashScratch& scratch, RowsBesideScores* beside) {
  const int64_t q_stride = QueryRowBytes(call);
  // Rows that end before this tile, or whose window starts after it, skip it.
  const TileRows rows = RowsOfTile(block, first, kTileKeys, scratch.begin, scratch.valid);
  const int step = call.ops->score_rows;
  alignas(64) float value_scales[kTileKeys];
  const float* p_scale = LoadValueScales(call, tile.blocks + TileBlocks(call.layout), 1, 0, value_scales);
  for (int row = rows.from; row < rows.to; row += step) {
    const int count = std::min(step, rows.to - row);
    beside->PrefetchShare();
    // kMaxRows: all rows at once.
    float* s = scratch.s + (step == kMaxRows ? row : scratch.rows - step) * kTileKeys;
    call.ops->scores({.q = block.q + row * q_stride,
                      .q_stride = q_stride,
                      .rows = count,
                      .head_dim = call.head_dim(),
                      .valid = scratch.valid + row,
                      .keys = tile.blocks,
                      .next = row == rows.from ? next.blocks : tile.blocks,
                      .wide = scratch.wide,
                      .s = s,
                      .s_stride = kTileKeys});
    AdjustScores(call, block, first, {row, row + count, rows.cut}, scratch.begin + row, scratch.valid + row, s,
                 kTileKeys);
    call.ops->running_softmax({.s = s,
                               .s_stride = kTileKeys,
                               .rows = count,
                               .valid = scratch.valid + row,
                               .scale = call.exponent_scale,
                               .row_max = scratch.row_max + row,
                               .lane_sum = scratch.lane_sum + row * kLanes,
                               .alpha = scratch.alpha + row,
                               .p = ProbabilityRow(call, scratch, row),
                               .p_stride = kTileKeys,
                               .p_scale = p_scale});
  }
  return rows;
}

// keys: of the tile that any row of the block sees.
void ValueTile(const AttentionCall& call, const TileRows& rows, int32_t keys, const TileBlockList& tile,
               const TileBlockList& next, const FlashScratch& scratch) {
  const int64_t o_stride = PaddedDim(call.v_head_dim());
  const int num_blocks = TileBlocks(call.layout);
  const int from = rows.from;
  if (rows.count() == 0) return;
  const std::byte* made[kMaxTilePages];
  const TileValueBlocks blocks =
      TileValues(call, tile.blocks + num_blocks, next.blocks + num_blocks, keys, scratch.made_values, made);
  call.ops->values({.p = ProbabilityRow(call, scratch, from),
                    .p_stride = kTileKeys,
                    .rows = rows.count(),
                    .valid = scratch.valid + from,
                    .begin = rows.cut ? scratch.begin + from : nullptr,
                    .alpha = scratch.alpha + from,
                    .head_dim = call.v_head_dim(),
                    .values = blocks.values,
                    .next = blocks.next,
                    .wide = scratch.wide,
                    .o = scratch.o + from * o_stride,
                    .o_stride = o_stride});
}

// following: the task that this thread probably runs next; the same one where there is none.
void RunBlock(const AttentionCall& call, const Task& task, const Task& following, const FlashScratch& scratch) {
  const ScheduleItem& item = task.item;
  const int32_t kv_head = task.kv_head;
  const SequenceView sequence = call.Sequence(item.sequence);
  const int64_t o_stride = PaddedDim(call.v_head_dim());
  QueryBlock block;
  LoadQueryBlock(call, sequence, kv_head, item.first_row, item.num_rows, scratch.q, &block);
  std::fill_n(scratch.row_max, block.rows, -std::numeric_limits<float>::infinity());
  std::fill_n(scratch.lane_sum, block.rows * kLanes, 0.0F);
  std::fill_n(scratch.o, block.rows * o_stride, 0.0F);
  const int32_t first_tile = FirstTile(block, kTileKeys);
  TileBlockList lists[2];  // of this tile and the next one, in turns
  ListTiles(call, task, first_tile, 1, lists[0].blocks);
  const int64_t num_shares =
      CeilDiv(block.max_limit - first_tile, kTileKeys) * CeilDiv(block.rows, call.ops->score_rows);
  RowsBesideScores beside(call, task, following, static_cast<int>(std::max<int64_t>(num_shares, 1)));
  int turn = 0;
  for (int32_t first = first_tile; first < block.max_limit; first += kTileKeys, turn = 1 - turn) {
    const TileBlockList& tile = lists[turn];
    TileBlockList& next = lists[1 - turn];
    if (ListTiles(call, task, first + kTileKeys, 1, next.blocks) == 0 &&
        ListTiles(call, following, FirstTileFrom(following, 0), 1, next.blocks) == 0) {
      next = tile;  // in a cache already
    }
    const TileRows rows = ScoreTile(call, block, first, tile, next, scratch, &beside);
    ValueTile(call, rows, std::min(block.max_limit - first, kTileKeys), tile, next, scratch);
  }
  for (int r = 0; r < block.rows; ++r) {
    // Four chains of four, because a chain of sixteen additions is bound by their latency.
    const float* lanes = scratch.lane_sum + r * kLanes;
    float part[4];
    for (int i = 0; i < 4; ++i) part[i] = ((lanes[i] + lanes[4 + i]) + lanes[8 + i]) + lanes[12 + i];
    const float sum = (part[0] + part[1]) + (part[2] + part[3]) + SinkTerm(call, block, r, scratch.row_max[r]);
    StoreOutputRow(call, sequence, block, r, scratch.o + r * o_stride, sum);
  }
}

}  // namespace

int FlashBlockRows(const WorkspaceNeed& need) {
  const int64_t row_bytes = QueryRowBytes(need.head_dim) + (kTileKeys + PaddedDim(need.v_head_dim)) * int64_t{4};
  const int64_t held = need.ops->block_bytes / (row_bytes * kBlockRows);
  const int64_t wanted = CeilDiv(need.rows, kBlockRows);
  return kBlockRows * static_cast<int>(std::clamp<int64_t>(std::min(held, wanted), 1, kMaxRows / kBlockRows));
}

size_t FlashWorkspace(const WorkspaceNeed& need) {
  Arena arena(nullptr);
  arena.Take<ScheduleItem>(kMaxScheduleItems);
  return arena.used() + FlashScratch(Arena(nullptr), need).bytes * static_cast<size_t>(need.num_threads);
}

void RunFlash(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace) {
  Arena arena(workspace);
  auto* items = arena.Take<ScheduleItem>(kMaxScheduleItems);
  std::byte* workers = static_cast<std::byte*>(workspace) + arena.used();
  const size_t worker_bytes = FlashScratch(Arena(nullptr), need).bytes;
  const int64_t wanted = LargeBlocksWanted(need.num_threads);
  const int most = FlashBlockRows(need);
  const int block_rows = CountTasks(call, most, kBlockRows, wanted) >= wanted ? most : kBlockRows;
  ScheduleCursor cursor;
  while (const int count = FillSchedule(call, block_rows, kMaxScheduleItems, &cursor, items)) {
    const int64_t num_tasks = int64_t{count} * call.num_kv_heads();
    const auto task_at = [&](int64_t index) { return TaskAt(call, items, index); };
    context->pool.Run(num_tasks, [&](int64_t index, int worker) {
      const FlashScratch scratch(Arena(workers + worker_bytes * static_cast<size_t>(worker)), need);
      const int64_t following = index + context->pool.num_threads();
      RunBlock(call, task_at(index), task_at(following < num_tasks ? following : index), scratch);
    });
  }
}

}  // namespace dunlin::kernels::cpu
