// SPDX-License-Identifier: Apache-2.0
// EFFICIENT on the CPU: memory-efficient attention. Keys are cut into chunks of 256 at absolute positions; a chunk's
// (max, sum, O) is reduced alone, with no running rescale inside, and a row's chunks are merged in ascending order in
// one fixed arithmetic. With few blocks the chunks are themselves work items, so that one long sequence uses every core
// in decode; which thread computed a chunk does not change its bits.
// Source: Rabe & Staats 2021.
#include <algorithm>
#include <limits>

#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/arena.h"
#include "kernels/cpu/attention/query_block.h"
#include "kernels/cpu/attention/schedule.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr int kChunkKeys = 256;

// Summaries of up to `rows` rows: of one chunk, or of all chunks so far.
struct Summary {
  Summary() = default;
  Summary(Arena* arena, int64_t rows, int32_t v_head_dim)
      : row_max(arena->Take<float>(rows)),
        row_sum(arena->Take<float>(rows)),
        o(arena->Take<float>(rows * PaddedDim(v_head_dim))) {}

  float* row_max;
  float* row_sum;
  float* o;
};

// One worker's buffers. At head_dim 128: 72 + 144 + 16 + 2 x 72 KB.
struct EfficientScratch {
  EfficientScratch(Arena arena, int32_t head_dim, int32_t v_head_dim, int64_t made_value_bytes)
      : q(arena.Take<std::byte>(kBlockRows * QueryRowBytes(head_dim))),
        s(arena.Take<float>(kBlockRows * kChunkKeys)),
        wide(arena.Take<float>(WidePanelFloats(head_dim))),
        made_values(arena.Take<std::byte>(made_value_bytes)),
        begin(arena.Take<int32_t>(kBlockRows)),
        valid(arena.Take<int32_t>(kBlockRows)),
        tile_begin(arena.Take<int32_t>(kBlockRows)),
        tile_valid(arena.Take<int32_t>(kBlockRows)),
        chunk(&arena, kBlockRows, v_head_dim),
        total(&arena, kBlockRows, v_head_dim),
        bytes(arena.used()) {}

  std::byte* q;
  float* s;  // then P
  float* wide;
  std::byte* made_values;
  int32_t* begin;
  int32_t* valid;
  int32_t* tile_begin;
  int32_t* tile_valid;
  Summary chunk;
  Summary total;
  size_t bytes;
};

// The chunk of a task that starts at key `first`, or at its first key where that is later.
struct ChunkTask {
  Task task;
  int32_t first;
};

// Lists the blocks of a chunk, or of the first one after it in which its rows' keys begin. Returns its tiles; 0: none.
int ListChunk(const AttentionCall& call, const ChunkTask& chunk, const std::byte** blocks) {
  const int32_t first = FirstTileFrom(chunk.task, chunk.first);
  return ListTiles(call, chunk.task, first, (kChunkKeys - first % kChunkKeys) / kTileKeys, blocks);
}

// Reduces a chunk for the rows of its task that see a key of it; returns those rows. following: what this thread
// probably reads next, prefetched meanwhile.
TileRows ReduceChunk(const AttentionCall& call, const QueryBlock& block, const ChunkTask& task,
                     const ChunkTask& following, const EfficientScratch& scratch, const Summary& out) {
  const int32_t first = task.first;
  const int64_t o_stride = PaddedDim(call.v_head_dim());
  const int64_t q_stride = QueryRowBytes(call);
  const int32_t end = std::min(first + kChunkKeys, block.max_limit);
  const TileRows chunk_rows = RowsOfTile(block, first, kChunkKeys, scratch.begin, scratch.valid);
  const int from = chunk_rows.from;
  const int rows = chunk_rows.count();
  if (rows == 0) return chunk_rows;
  const int32_t first_tile = std::max(first, FirstTile(block, kTileKeys));
  // The blocks of this chunk in the order in which few rows read them, then those of the chunk that follows, which few
  // rows prefetch too. More rows prefetch the chunk's other tile.
  const bool prefetches_across = rows <= kFewRows && call.layout.key_block_bytes == call.layout.value_block_bytes;
  const std::byte* blocks[2 * (2 * kChunkKeys / kTileKeys) * kMaxTilePages];
  const int num_blocks = TileBlocks(call.layout);
  const int num_tiles = ListChunk(call, task, blocks);
  const std::byte** const after = blocks + 2 * num_tiles * num_blocks;
  if (prefetches_across && ListChunk(call, following, after) == 0) std::copy_n(blocks, 2 * num_blocks, after);
  const auto ahead = [&](bool last) { return prefetches_across ? 2 * num_blocks : last ? 0 : num_blocks; };
  const std::byte* const* tile = blocks;
  for (int32_t key = first_tile; key < end; key += kTileKeys, tile += num_blocks) {
    const bool last = key + kTileKeys >= end;
    const TileRows tile_rows = RowsOfTile(block, key, kTileKeys, scratch.tile_begin, scratch.tile_valid);
    if (tile_rows.count() == 0) continue;
    call.ops->scores({.q = block.q + tile_rows.from * q_stride,
                      .q_stride = q_stride,
                      .rows = tile_rows.count(),
                      .head_dim = call.head_dim(),
                      .valid = scratch.tile_valid + tile_rows.from,
                      .keys = tile,
                      .next = tile + ahead(last),
                      .wide = scratch.wide,
                      .s = scratch.s + tile_rows.from * kChunkKeys + (key - first),
                      .s_stride = kChunkKeys});
  }
  AdjustScores(call, block, first, chunk_rows, scratch.begin + from, scratch.valid + from,
               scratch.s + from * kChunkKeys, kChunkKeys);
  alignas(64) float value_scales[kChunkKeys];
  call.ops->chunk_softmax({.s = scratch.s + from * kChunkKeys,
                           .s_stride = kChunkKeys,
                           .rows = rows,
                           .valid = scratch.valid + from,
                           .scale = call.exponent_scale,
                           .row_max = out.row_max + from,
                           .row_sum = out.row_sum + from,
                           .p = scratch.s,
                           .p_stride = kChunkKeys,
                           .p_scale = LoadValueScales(call, tile, num_tiles, first_tile - first, value_scales)});
  std::fill_n(out.o + from * o_stride, rows * o_stride, 0.0F);
  const int64_t p_bytes = call.ops->bf16_pairs ? 2 : 4;
  for (int32_t key = first_tile; key < end; key += kTileKeys, tile += num_blocks) {
    const bool last = key + kTileKeys >= end;
    const TileRows tile_rows = RowsOfTile(block, key, kTileKeys, scratch.tile_begin, scratch.tile_valid);
    if (tile_rows.count() == 0) continue;
    const std::byte* made[kMaxTilePages];
    const TileValueBlocks values =
        TileValues(call, tile, tile + ahead(last), std::min(end - key, kTileKeys), scratch.made_values, made);
    const int64_t p_start = (tile_rows.from - from) * int64_t{kChunkKeys} + (key - first);
    call.ops->values({.p = reinterpret_cast<const std::byte*>(scratch.s) + p_start * p_bytes,
                      .p_stride = kChunkKeys,
                      .rows = tile_rows.count(),
                      .valid = scratch.tile_valid + tile_rows.from,
                      .begin = tile_rows.cut ? scratch.tile_begin + tile_rows.from : nullptr,
                      .alpha = nullptr,
                      .head_dim = call.v_head_dim(),
                      .values = values.values,
                      .next = values.next,
                      .wide = scratch.wide,
                      .o = out.o + tile_rows.from * o_stride,
                      .o_stride = o_stride});
  }
  return chunk_rows;
}

// Starts the rows' totals, so that a row's first chunk merges like any other.
void ClearTotal(const AttentionCall& call, int rows, const Summary& total) {
  std::fill_n(total.row_max, rows, -std::numeric_limits<float>::infinity());
  std::fill_n(total.row_sum, rows, 0.0F);
  std::fill_n(total.o, rows * PaddedDim(call.v_head_dim()), 0.0F);
}

void MergeChunk(const AttentionCall& call, const TileRows& rows, const Summary& chunk, const Summary& total) {
  const int64_t o_stride = PaddedDim(call.v_head_dim());
  const int from = rows.from;
  call.ops->merge({.rows = rows.count(),
                   .o_stride = o_stride,
                   .scale = call.exponent_scale,
                   .row_max = total.row_max + from,
                   .row_sum = total.row_sum + from,
                   .o = total.o + from * o_stride,
                   .chunk_max = chunk.row_max + from,
                   .chunk_sum = chunk.row_sum + from,
                   .chunk_o = chunk.o + from * o_stride});
}

void StoreTotal(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block,
                const Summary& total) {
  for (int r = 0; r < block.rows; ++r) {
    const float sum = total.row_sum[r] + SinkTerm(call, block, r, total.row_max[r]);
    StoreOutputRow(call, sequence, block, r, total.o + r * PaddedDim(call.v_head_dim()), sum);
  }
}

// following: as in ReduceChunk; the same task where there is none.
void RunBlock(const AttentionCall& call, const Task& task, const Task& following, const EfficientScratch& scratch) {
  const ScheduleItem& item = task.item;
  const int32_t kv_head = task.kv_head;
  const SequenceView sequence = call.Sequence(item.sequence);
  QueryBlock block;
  LoadQueryBlock(call, sequence, kv_head, item.first_row, item.num_rows, scratch.q, &block);
  ClearTotal(call, block.rows, scratch.total);
  for (int32_t first = FirstTile(block, kChunkKeys); first < block.max_limit; first += kChunkKeys) {
    const ChunkTask next =
        first + kChunkKeys < block.max_limit ? ChunkTask{task, first + kChunkKeys} : ChunkTask{following, 0};
    const TileRows rows = ReduceChunk(call, block, {task, first}, next, scratch, scratch.chunk);
    MergeChunk(call, rows, scratch.chunk, scratch.total);
  }
  StoreTotal(call, sequence, block, scratch.total);
}

// The workspace: the schedule, the workers' scratch, and slots for chunk summaries. A slot holds one chunk of one block
// and KV head; there are enough for the longest sequence's block, and for several blocks per thread.
struct EfficientMemory {
  EfficientMemory(void* workspace, const WorkspaceNeed& need) {
    Arena arena(workspace);
    items = arena.Take<ScheduleItem>(kMaxScheduleItems);
    const EfficientScratch measured(Arena(nullptr), need.head_dim, need.v_head_dim, need.made_value_bytes);
    worker_bytes = measured.bytes;
    workers = arena.Take<std::byte>(static_cast<int64_t>(worker_bytes) * need.num_threads);
    slot_rows = std::min<int64_t>(kBlockRows, need.rows);
    num_slots = std::max(CeilDiv(need.kv_len, kChunkKeys) * need.num_kv_heads, int64_t{8} * need.num_threads);
    slot_bytes = SlotBytes(need.v_head_dim);
    slots = arena.Take<std::byte>(static_cast<int64_t>(slot_bytes) * num_slots);
    bytes = arena.used();
  }

  EfficientScratch Worker(const AttentionCall& call, int worker) const {
    return {Arena(workers + worker_bytes * static_cast<size_t>(worker)), call.head_dim(), call.v_head_dim(),
            MadeValueBytes(call)};
  }
  Summary Slot(const AttentionCall& call, int64_t slot) const {
    Arena arena(slots + slot_bytes * static_cast<size_t>(slot));
    return {&arena, slot_rows, call.v_head_dim()};
  }
  size_t SlotBytes(int32_t v_head_dim) const {
    Arena arena(nullptr);
    Summary(&arena, slot_rows, v_head_dim);
    return arena.used();
  }

  ScheduleItem* items;
  std::byte* workers;
  size_t worker_bytes;
  int64_t slot_rows;
  int64_t num_slots;
  size_t slot_bytes;
  std::byte* slots;
  size_t bytes;
};

void RunWhole(DeviceContext* context, const AttentionCall& call, const EfficientMemory& memory) {
  ScheduleCursor cursor;
  while (const int count = FillSchedule(call, kBlockRows, kMaxScheduleItems, &cursor, memory.items)) {
    const int64_t num_tasks = int64_t{count} * call.num_kv_heads();
    context->pool.Run(num_tasks, [&](int64_t index, int worker) {
      const int64_t following = index + context->pool.num_threads();
      RunBlock(call, TaskAt(call, memory.items, index),
               TaskAt(call, memory.items, following < num_tasks ? following : index), memory.Worker(call, worker));
    });
  }
}

// Chunks that hold a key of the item's rows, from FirstChunk on.
int64_t FirstChunk(const ScheduleItem& item) {
  return item.first_key / kChunkKeys;
}
int64_t NumChunks(const ScheduleItem& item) {
  return CeilDiv(item.end_key, kChunkKeys) - FirstChunk(item);
}

// One round: the chunks of items[0..count) for every KV head, then their merges. Chunk c of (item, KV head) has slot
// (slots of the items before + c) * num_kv_heads + kv_head.
void RunSplitRound(DeviceContext* context, const AttentionCall& call, const EfficientMemory& memory,
                   const ScheduleItem* items, int count) {
  const int64_t kv_heads = call.num_kv_heads();
  const auto chunks_of = [&](int item) { return NumChunks(items[item]); };
  int64_t num_chunks = 0;
  for (int item = 0; item < count; ++item) num_chunks += chunks_of(item);
  const int64_t num_tasks = num_chunks * kv_heads;
  const auto chunk_at = [&](int64_t index) {
    int64_t chunk = index / kv_heads;
    int item = 0;
    for (; chunk >= chunks_of(item); ++item) chunk -= chunks_of(item);
    return ChunkTask{{items[item], static_cast<int32_t>(index % kv_heads)},
                     static_cast<int32_t>((FirstChunk(items[item]) + chunk) * kChunkKeys)};
  };
  context->pool.Run(num_tasks, [&](int64_t index, int worker) {
    const auto [task, first] = chunk_at(index);
    const int64_t later = index + context->pool.num_threads();
    const ChunkTask following = chunk_at(later < num_tasks ? later : index);
    const SequenceView sequence = call.Sequence(task.item.sequence);
    const EfficientScratch scratch = memory.Worker(call, worker);
    QueryBlock block;
    LoadQueryBlock(call, sequence, task.kv_head, task.item.first_row, task.item.num_rows, scratch.q, &block);
    ReduceChunk(call, block, {task, first}, following, scratch, memory.Slot(call, index));
  });
  context->pool.Run(count * kv_heads, [&](int64_t task, int worker) {
    const auto kv_head = static_cast<int32_t>(task % kv_heads);
    const auto item = static_cast<int>(task / kv_heads);
    int64_t slot = kv_head;
    for (int before = 0; before < item; ++before) slot += chunks_of(before) * kv_heads;
    const SequenceView sequence = call.Sequence(items[item].sequence);
    const EfficientScratch scratch = memory.Worker(call, worker);
    QueryBlock block;
    LoadQueryBlock(call, sequence, kv_head, items[item].first_row, items[item].num_rows, scratch.q, &block);
    ClearTotal(call, block.rows, scratch.total);
    for (int32_t first = FirstTile(block, kChunkKeys); first < block.max_limit; first += kChunkKeys, slot += kv_heads) {
      const TileRows rows = RowsOfTile(block, first, kChunkKeys, scratch.begin, scratch.valid);
      MergeChunk(call, rows, memory.Slot(call, slot), scratch.total);
    }
    StoreTotal(call, sequence, block, scratch.total);
  });
}

void RunSplit(DeviceContext* context, const AttentionCall& call, const EfficientMemory& memory) {
  ScheduleCursor cursor;
  while (const int count = FillSchedule(call, kBlockRows, kMaxScheduleItems, &cursor, memory.items)) {
    int start = 0;
    while (start < count) {
      int64_t slots = 0;
      int end = start;
      for (; end < count; ++end) {
        slots += NumChunks(memory.items[end]) * call.num_kv_heads();
        if (slots > memory.num_slots) break;
      }
      RunSplitRound(context, call, memory, memory.items + start, end - start);
      start = end;
    }
  }
}

}  // namespace

size_t EfficientWorkspace(const WorkspaceNeed& need) {
  return EfficientMemory(nullptr, need).bytes;
}

void RunEfficient(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace) {
  const EfficientMemory memory(workspace, need);
  const int64_t enough = int64_t{4} * need.num_threads;
  if (need.num_threads > 1 && CountTasks(call, kBlockRows, 0, enough) < enough) {
    RunSplit(context, call, memory);
  } else {
    RunWhole(context, call, memory);
  }
}

}  // namespace dunlin::kernels::cpu
