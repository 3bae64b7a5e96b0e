// SPDX-License-Identifier: Apache-2.0
// MATH on the CPU, the oracle of the other two: S = Q K^T in full rows, softmax over each whole row in FP32, then P V
// with P in FP32. Paged: one worker holds S of one block of 24 rows of one (sequence, KV head). Dense: S of the whole
// call in three passes, as PyTorch's MATH, so its memory grows with q_len * kv_len.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/attention/algorithms.h"
#include "kernels/cpu/attention/arena.h"
#include "kernels/cpu/attention/query_block.h"
#include "kernels/cpu/attention/schedule.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {
namespace {

// Rows of a paged block: 24 rows x 8192 keys x 4 bytes = 768 KB per worker, within its L2.
constexpr int kMathRows = 24;

int64_t ScoreStride(int32_t kv_len) {
  return CeilDiv(kv_len, kTileKeys) * kTileKeys;
}

struct MathScratch {
  MathScratch(Arena arena, int32_t head_dim, int32_t v_head_dim, int64_t made_value_bytes, int64_t s_floats)
      : q(arena.Take<std::byte>(kBlockRows * QueryRowBytes(head_dim))),
        o(arena.Take<float>(kBlockRows * PaddedDim(v_head_dim))),
        begin(arena.Take<int32_t>(kBlockRows)),
        valid(arena.Take<int32_t>(kBlockRows)),
        wide(arena.Take<float>(WidePanelFloats(head_dim))),
        made_values(arena.Take<std::byte>(made_value_bytes)),
        s(arena.Take<float>(s_floats)),
        bytes(arena.used()) {}

  std::byte* q;
  float* o;
  int32_t* begin;
  int32_t* valid;
  float* wide;
  std::byte* made_values;
  float* s;
  size_t bytes;
};

// The three steps on one block of rows; s: [block.rows][s_stride].
void ScoreRows(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block, float* s,
               int64_t s_stride, const MathScratch& scratch) {
  const int64_t q_stride = QueryRowBytes(call);
  for (int32_t first = FirstTile(block, kTileKeys); first < block.max_limit; first += kTileKeys) {
    const std::byte* keys[kMaxTilePages];
    const std::byte* values[kMaxTilePages];
    ListTile(call, sequence, block.kv_head, first, keys, values);
    const TileRows rows = RowsOfTile(block, first, kTileKeys, scratch.begin, scratch.valid);
    if (rows.count() == 0) continue;
    call.ops->scores({.q = block.q + rows.from * q_stride,
                      .q_stride = q_stride,
                      .rows = rows.count(),
                      .head_dim = call.head_dim(),
                      .valid = scratch.valid + rows.from,
                      .keys = keys,
                      .next = keys,
                      .wide = scratch.wide,
                      .s = s + rows.from * s_stride + first,
                      .s_stride = s_stride});
  }
}

// What the sink of a row's head leaves to its keys, of 1. s: the scores that the softmax takes.
float ShareOfKeys(const AttentionCall& call, const QueryBlock& block, int r, const float* s, int32_t count) {
  if (call.sinks == nullptr) return 1.0F;
  const float row_max = *std::max_element(s, s + count);
  float sum = 0.0F;
  for (int32_t i = 0; i < count; ++i) sum += std::exp2((s[i] - row_max) * call.exponent_scale);
  return sum / (sum + SinkTerm(call, block, r, row_max));
}

// A row's softmax starts at the tile of its first key, wherever the block starts: its bits are its own.
void SoftmaxRows(const AttentionCall& call, const QueryBlock& block, float* s, int64_t s_stride) {
  for (int r = 0; r < block.rows; ++r, s += s_stride) {
    if (block.limits[r] == block.starts[r]) continue;
    const int32_t first = block.starts[r] / kTileKeys * kTileKeys;
    const int32_t begin = block.starts[r] - first;
    const int32_t count = block.limits[r] - first;
    AdjustScores(call, block, first, {.from = r, .to = r + 1, .cut = begin > 0}, &begin, &count, s + first, s_stride);
    const float share = ShareOfKeys(call, block, r, s + first, count);
    call.ops->full_softmax(
        {.s = s + first, .s_stride = s_stride, .rows = 1, .valid = &count, .scale = call.exponent_scale});
    for (int32_t i = 0; share != 1.0F && i < count; ++i) s[first + i] *= share;
  }
}

void ValueRows(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block, const float* p,
               int64_t p_stride, const MathScratch& scratch) {
  const int64_t o_stride = PaddedDim(call.v_head_dim());
  std::fill_n(scratch.o, block.rows * o_stride, 0.0F);
  for (int32_t first = FirstTile(block, kTileKeys); first < block.max_limit; first += kTileKeys) {
    const std::byte* keys[kMaxTilePages];
    const std::byte* values[kMaxTilePages];
    ListTile(call, sequence, block.kv_head, first, keys, values);
    const TileRows rows = RowsOfTile(block, first, kTileKeys, scratch.begin, scratch.valid);
    const int from = rows.from;
    if (rows.count() == 0) continue;
    const std::byte* made[kMaxTilePages];
    const TileValueBlocks tile =
        TileValues(call, values, values, std::min(block.max_limit - first, kTileKeys), scratch.made_values, made);
    call.ops->values_f32({.p = p + from * p_stride + first,
                          .p_stride = p_stride,
                          .rows = rows.count(),
                          .valid = scratch.valid + from,
                          .begin = rows.cut ? scratch.begin + from : nullptr,
                          .alpha = nullptr,
                          .head_dim = call.v_head_dim(),
                          .values = tile.values,
                          .next = tile.next,
                          .wide = scratch.wide,
                          .o = scratch.o + from * o_stride,
                          .o_stride = o_stride});
  }
  // P is normalised already; the sum says only whether the row saw a key.
  for (int r = 0; r < block.rows; ++r) {
    StoreOutputRow(call, sequence, block, r, scratch.o + r * o_stride, block.limits[r] > block.starts[r] ? 1.0F : 0.0F);
  }
}

// Calls body(item, kv_head, scratch) for every block and KV head on the pool.
template <typename Body>
void ForEachBlock(DeviceContext* context, const AttentionCall& call, int block_rows, int64_t s_floats,
                  std::byte* workspace, const Body& body) {
  Arena arena(workspace);
  auto* items = arena.Take<ScheduleItem>(kMaxScheduleItems);
  std::byte* workers = workspace + arena.used();
  const size_t worker_bytes =
      MathScratch(Arena(nullptr), call.head_dim(), call.v_head_dim(), MadeValueBytes(call), s_floats).bytes;
  ScheduleCursor cursor;
  while (const int count = FillSchedule(call, block_rows, kMaxScheduleItems, &cursor, items)) {
    context->pool.Run(int64_t{count} * call.num_kv_heads(), [&](int64_t task, int worker) {
      const MathScratch scratch(Arena(workers + worker_bytes * static_cast<size_t>(worker)), call.head_dim(),
                                call.v_head_dim(), MadeValueBytes(call), s_floats);
      body(items[task / call.num_kv_heads()], static_cast<int32_t>(task % call.num_kv_heads()), scratch);
    });
  }
}

size_t BlocksWorkspace(const WorkspaceNeed& need, int64_t s_floats) {
  Arena arena(nullptr);
  arena.Take<ScheduleItem>(kMaxScheduleItems);
  const size_t worker =
      MathScratch(Arena(nullptr), need.head_dim, need.v_head_dim, need.made_value_bytes, s_floats).bytes;
  return arena.used() + worker * static_cast<size_t>(need.num_threads);
}

int64_t PagedScoreFloats(const WorkspaceNeed& need) {
  return std::min<int64_t>(kMathRows, need.rows) * ScoreStride(need.kv_len);
}

}  // namespace

size_t MathWorkspace(const WorkspaceNeed& need) {
  return BlocksWorkspace(need, PagedScoreFloats(need));
}

void RunMath(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace) {
  const int64_t s_stride = ScoreStride(need.kv_len);
  ForEachBlock(context, call, kMathRows, PagedScoreFloats(need), static_cast<std::byte*>(workspace),
               [&](const ScheduleItem& item, int32_t kv_head, const MathScratch& scratch) {
                 const SequenceView sequence = call.Sequence(item.sequence);
                 QueryBlock block;
                 LoadQueryBlock(call, sequence, kv_head, item.first_row, item.num_rows, scratch.q, &block);
                 ScoreRows(call, sequence, block, scratch.s, s_stride, scratch);
                 SoftmaxRows(call, block, scratch.s, s_stride);
                 ValueRows(call, sequence, block, scratch.s, s_stride, scratch);
               });
}

size_t DenseMathWorkspace(const WorkspaceNeed& need) {
  Arena arena(nullptr);
  arena.Take<float>(int64_t{need.batch} * need.num_kv_heads * need.rows * ScoreStride(need.kv_len));
  return arena.used() + BlocksWorkspace(need, 0);
}

void RunDenseMath(DeviceContext* context, const AttentionCall& call, const WorkspaceNeed& need, void* workspace) {
  const int64_t s_stride = ScoreStride(need.kv_len);
  Arena arena(workspace);
  auto* all_s = arena.Take<float>(int64_t{call.num_sequences} * need.num_kv_heads * need.rows * s_stride);
  auto* rest = static_cast<std::byte*>(workspace) + arena.used();
  const auto rows_of = [&](const ScheduleItem& item, int32_t kv_head) {
    return all_s + ((int64_t{item.sequence} * need.num_kv_heads + kv_head) * need.rows + item.first_row) * s_stride;
  };
  enum class Pass { kScores, kSoftmax, kValues };
  for (const Pass pass : {Pass::kScores, Pass::kSoftmax, Pass::kValues}) {
    ForEachBlock(context, call, kBlockRows, 0, rest,
                 [&](const ScheduleItem& item, int32_t kv_head, const MathScratch& scratch) {
                   const SequenceView sequence = call.Sequence(item.sequence);
                   float* s = rows_of(item, kv_head);
                   QueryBlock block;
                   LoadQueryBlock(call, sequence, kv_head, item.first_row, item.num_rows, scratch.q, &block);
                   switch (pass) {
                     case Pass::kScores:
                       ScoreRows(call, sequence, block, s, s_stride, scratch);
                       break;
                     case Pass::kSoftmax:
                       SoftmaxRows(call, block, s, s_stride);
                       break;
                     case Pass::kValues:
                       ValueRows(call, sequence, block, s, s_stride, scratch);
                       break;
                   }
                 });
  }
}

}  // namespace dunlin::kernels::cpu
