// FLASH on the CPU: tiles of 128 keys at absolute positions, blocks of up to 144 packed rows, 288 or 432 where a table
// widens tiles, a block fits the cache and there are blocks enough, running maximum and sum, O rescaled as it is loaded
// for the next tile. Where one row reads at memory's pace and not by a stream, the scores of two tiles come before
// their values. S never leaves a buffer of 512 bytes a row. Work is split over sequences, KV heads and row blocks,
// never over keys. Source: Dao et al. 2022, algorithm 1; Milakov & Gimelshein 2018.
#include <algorithm>
#include <limits>

#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/arena.h"
#include "kernels/cpu/attention/query_block.h"
#include "kernels/cpu/attention/schedule.h"
#include "kernels/cpu/context.h"

namespace dunlin::kernels::cpu {
namespace {

// One worker's buffers, over a piece of the workspace. At head_dim 128 and 144 rows: 72 + 72 + 16 + 72 + 12 KB.
struct FlashScratch {
  FlashScratch(Arena arena, const WorkspaceNeed& need)
      : rows(FlashBlockRows(need)),
        q(arena.Take<std::byte>(rows * QueryRowBytes(need.head_dim))),
        s(arena.Take<float>(rows * kTileKeys)),
        wide(arena.Take<float>(WidePanelFloats(need.head_dim))),
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
  float* o;
  float* row_max;
  float* lane_sum;
  float* alpha;
  int32_t* begin;
  int32_t* valid;
  size_t bytes;
};

// Outputs and the next task's queries are asked for beside the scores, a part at a time. The next task's first round
// follows the last one.
class Beside {
 public:
  Beside(const AttentionCall& call, const Task& task, const Task& next, int num_parts)
      : out_(call, call.out, call.v_head_dim(), call.Sequence(task.item.sequence).out_offset, task.kv_head,
             task.item.first_row, task.item.num_rows),
        query_(call, call.query, call.head_dim(), call.Sequence(next.item.sequence).query_offset, next.kv_head,
               next.item.first_row, next.item.num_rows),
        out_part_((task.item.num_rows + num_parts - 1) / num_parts),
        query_part_((next.item.num_rows + num_parts - 1) / num_parts) {}

  void Ask() {
    out_.Ask<true>(out_part_);
    query_.Ask<false>(query_part_);
  }

 private:
  RowAsker<std::byte> out_;
  RowAsker<const std::byte> query_;
  int out_part_;
  int query_part_;
};

// Tiles of a round: their scores come first, then their values. Few rows may take two (TileOps::round_rows).
constexpr int kRoundTiles = 2;

// The blocks of a round in the order in which few rows read them, the keys of its tiles, then their values; the next
// round follows, and one more where a stream reaches it. Written pointer by pointer and read so: a copy by vectors of
// what was just written would wait for it.
class BlockList {
 public:
  BlockList(const KvLayout& layout, int round_tiles) : round_blocks_(2 * round_tiles * TileBlocks(layout)) {}
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;

  const std::byte** round() { return round_; }
  const std::byte** next() { return round_ + round_blocks_; }
  // The next round becomes the round.
  void Advance() {
    if (next() + 3 * round_blocks_ <= std::end(blocks_)) {
      round_ = next();
    } else {
      std::copy_n(next(), round_blocks_, blocks_);
      round_ = blocks_;
    }
  }

 private:
  const std::byte* blocks_[4 * 2 * kRoundTiles * kMaxTilePages];  // several rounds, so that few are copied
  const std::byte** round_ = blocks_;
  int round_blocks_;
};

// What the values of a tile need of its scores: the rows that see it, and its part of the buffers.
struct RoundTile {
  TileRows rows;
  AskStream* stream;  // or null
  std::byte* p;
  float* alpha;
  int32_t* begin;
  int32_t* valid;
};

// Scores and softmax of the tile that starts at key `first`, the index-th of its round. ahead: blocks from those of a
// tile to those to ask for meanwhile, where it has no stream; stream: of blocks that have one, or null.
RoundTile ScoreTile(const AttentionCall& call, const QueryBlock& block, int32_t first, int index,
                    const std::byte* const* keys, const std::byte* const* values, int ahead,
                    const FlashScratch& scratch, Beside* beside, AskStream* stream) {
  const int64_t q_stride = QueryRowBytes(call);
  const int slot = index * block.rows;
  RoundTile tile{.rows = {},
                 .stream = nullptr,
                 .p = nullptr,
                 .alpha = scratch.alpha + slot,
                 .begin = scratch.begin + slot,
                 .valid = scratch.valid + slot};
  // Rows that end before this tile, or whose window starts after it, skip it.
  tile.rows = RowsOfTile(block, first, kTileKeys, tile.begin, tile.valid);
  const int from = tile.rows.from;
  const int rows = tile.rows.count();
  if (stream != nullptr && rows == block.rows) tile.stream = stream;
  // P takes the place of S. Where S is made of a few rows at a time it stands at the end, and P, half as wide, before
  // it.
  const int step = call.ops->score_rows;
  const int64_t p_bytes = call.ops->bf16_pairs ? 2 : 4;
  alignas(64) float value_scales[kTileKeys];
  const float* p_scale = LoadValueScales(call, values, 1, 0, value_scales);
  tile.p = reinterpret_cast<std::byte*>(scratch.s) + (slot + from) * kTileKeys * p_bytes;
  for (int done = 0; done < rows; done += step) {
    const int row = from + done;
    const int count = std::min(step, rows - done);
    beside->Ask();
    // kMaxRows: all rows at once.
    float* s = scratch.s + (step == kMaxRows ? slot + from : scratch.rows - step) * kTileKeys;
    call.ops->scores({.q = block.q + row * q_stride,
                      .q_stride = q_stride,
                      .rows = count,
                      .head_dim = call.head_dim(),
                      .valid = tile.valid + row,
                      .keys = keys,
                      .next = done == 0 ? keys + ahead : keys,
                      .stream = tile.stream,
                      .wide = scratch.wide,
                      .s = s,
                      .s_stride = kTileKeys});
    AdjustScores(call, block, first, {row, row + count, tile.rows.cut}, tile.begin + row, tile.valid + row, s,
                 kTileKeys);
    call.ops->running_softmax({.s = s,
                               .s_stride = kTileKeys,
                               .rows = count,
                               .valid = tile.valid + row,
                               .scale = call.exponent_scale,
                               .row_max = scratch.row_max + row,
                               .lane_sum = scratch.lane_sum + row * kLanes,
                               .alpha = tile.alpha + row,
                               .p = tile.p + done * kTileKeys * p_bytes,
                               .p_stride = kTileKeys,
                               .p_scale = p_scale,
                               .stream = tile.stream});
  }
  return tile;
}

void ValueTile(const AttentionCall& call, const RoundTile& tile, const std::byte* const* values, int ahead,
               const FlashScratch& scratch) {
  const int64_t o_stride = PaddedDim(call.v_head_dim());
  const int from = tile.rows.from;
  if (tile.rows.count() == 0) return;
  call.ops->values({.p = tile.p,
                    .p_stride = kTileKeys,
                    .rows = tile.rows.count(),
                    .valid = tile.valid + from,
                    .begin = tile.rows.cut ? tile.begin + from : nullptr,
                    .alpha = tile.alpha + from,
                    .head_dim = call.v_head_dim(),
                    .values = values,
                    .next = values + ahead,
                    .stream = tile.stream,
                    .wide = scratch.wide,
                    .o = scratch.o + from * o_stride,
                    .o_stride = o_stride});
}

// following: the task that this thread runs next, as far as one can tell; the same one where there is none.
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
  const bool equal = EqualBlocks(call.layout);
  const AskPlan plan = PlanAsks(call, block.rows);
  const int round_tiles = plan.ahead == 0 && equal && call.ops->round_rows.Holds(block.rows) ? kRoundTiles : 1;
  const int num_blocks = TileBlocks(call.layout);
  const int ahead = equal && call.ops->near_rows.Holds(block.rows) ? num_blocks / 2 : 2 * num_blocks;
  const int32_t round_keys = round_tiles * kTileKeys;
  const int32_t end = first_tile + static_cast<int32_t>(CeilDiv(block.max_limit - first_tile, round_keys)) * round_keys;
  AskStream stream;
  BlockList list(call.layout, round_tiles);
  ListTiles(call, task, first_tile, round_tiles, list.round());
  const int64_t num_parts =
      CeilDiv(block.max_limit - first_tile, kTileKeys) * CeilDiv(block.rows, call.ops->score_rows);
  Beside beside(call, task, following, static_cast<int>(std::max<int64_t>(num_parts, 1)));
  for (int32_t first = first_tile; first < block.max_limit; first += round_keys) {
    const int tiles = std::min(round_tiles, static_cast<int>(CeilDiv(block.max_limit - first, kTileKeys)));
    const std::byte** keys = list.round();
    const std::byte** values = keys + tiles * num_blocks;
    const std::byte** next = values + tiles * num_blocks;
    int listed = 0;  // behind the round, of whole rounds
    for (; listed == 0 || listed < plan.ahead; listed += 2 * round_tiles * num_blocks) {
      const int32_t later = first + round_keys * (1 + listed / (2 * round_tiles * num_blocks));
      const std::byte** at = next + listed;
      if (ListTiles(call, task, later, round_tiles, at) == 0 &&
          ListTiles(call, following, FirstTileFrom(following, 0) + std::max(later - end, 0), round_tiles, at) == 0) {
        std::copy_n(values - num_blocks, 2 * num_blocks, at);  // read already, and so in a cache
      }
    }
    RoundTile round[kRoundTiles];
    if (plan.ahead > 0) stream = AskStream(plan, call.layout, keys, tiles, num_blocks, listed);
    for (int i = 0; i < tiles; ++i) {
      round[i] = ScoreTile(call, block, first + i * kTileKeys, i, keys + i * num_blocks, values + i * num_blocks, ahead,
                           scratch, &beside, plan.ahead > 0 ? &stream : nullptr);
    }
    for (int i = 0; i < tiles; ++i) ValueTile(call, round[i], values + i * num_blocks, ahead, scratch);
    if (first + round_keys < block.max_limit) list.Advance();
  }
  for (int r = 0; r < block.rows; ++r) {
    // Four chains of four: one of sixteen would wait for its own additions.
    const float* lanes = scratch.lane_sum + r * kLanes;
    float part[4];
    for (int i = 0; i < 4; ++i) part[i] = ((lanes[i] + lanes[4 + i]) + lanes[8 + i]) + lanes[12 + i];
    const float sum = (part[0] + part[1]) + (part[2] + part[3]);
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
