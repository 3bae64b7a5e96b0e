// SPDX-License-Identifier: Apache-2.0
// Loading of packed query rows, the keys they see, and storing of output rows.
#include "kernels/cpu/attention/query_block.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

namespace dunlin::kernels::cpu {
namespace {

template <typename Byte>
int64_t RowOffset(const AttentionCall& call, const QueryBlock& block, const RowTensor<Byte>& tensor, int r) {
  const int64_t head = block.kv_head * int64_t{call.group} + block.heads[r];
  return block.tokens[r] * tensor.token_stride + head * tensor.head_stride;
}

// The call's rule on the scores of block row r for the keys from `first` on.
void AdjustRow(const AttentionCall& call, const QueryBlock& block, int r, int32_t first, int32_t count, float* s) {
  const ScoreRule& rule = call.rule;
  const int64_t token = block.tokens[r];
  const int64_t head = block.kv_head * int64_t{call.group} + block.heads[r];
  AdjustRowArgs args{.s = s,
                     .count = count,
                     .scale = rule.scale,
                     .softcap = rule.softcap,
                     .slope = rule.alibi_slopes == nullptr ? 0.0F : rule.alibi_slopes[head],
                     .distance = first - (block.first_position + static_cast<int32_t>(token)),
                     .bias = nullptr,
                     .bias_dtype = rule.bias.dtype,
                     .mask = nullptr};
  if (rule.bias.data != nullptr) {
    const int64_t element =
        block.sequence * rule.bias.batch_stride + head * rule.bias.head_stride + token * rule.bias.query_stride + first;
    args.bias = static_cast<const std::byte*>(rule.bias.data) + element * static_cast<int64_t>(SizeOf(rule.bias.dtype));
  }
  if (rule.mask.data != nullptr) {
    args.mask = rule.mask.data + block.sequence * rule.mask.batch_stride + head * rule.mask.head_stride +
                token * rule.mask.query_stride + first;
  }
  call.ops->adjust_row(args);
}

}  // namespace

void LoadQueryBlock(const AttentionCall& call, const SequenceView& sequence, int32_t kv_head, int64_t first_row,
                    int rows, std::byte* packed_q, QueryBlock* block) {
  block->sequence = sequence.index;
  block->kv_head = kv_head;
  block->first_position = sequence.first_position;
  block->rows = rows;
  block->q = packed_q;
  const int64_t row_bytes = QueryRowBytes(call);
  // Incremented instead of divided: a division costs as much as loading a row.
  auto token = static_cast<int32_t>(first_row / call.group);
  auto head = static_cast<int32_t>(first_row % call.group);
  RowPrefetcher prefetcher(call, call.query, call.head_dim(), sequence.query_offset, kv_head, first_row, rows);
  prefetcher.Prefetch<false>(RowPrefetcher<const std::byte>::RowsAhead(call.query, call.head_dim()));
  for (int r = 0; r < rows; ++r) {
    prefetcher.Prefetch<false>(1);
    block->tokens[r] = token;
    block->heads[r] = head;
    block->starts[r] = sequence.KeyStart(token);
    block->limits[r] = sequence.KeyLimit(token);
    const int64_t start = sequence.query_offset + RowOffset(call, *block, call.query, r);
    call.ops->load_query({.in = call.query.data + start * static_cast<int64_t>(SizeOf(call.query.dtype)),
                          .in_dtype = call.query.dtype,
                          .head_dim = call.head_dim(),
                          .sign = call.query_sign,
                          .round_to_bf16 = call.layout.dtype == DType::kBF16 || call.ops->bf16_pairs,
                          .packed = packed_q + r * row_bytes});
    if (++head == call.group) {
      head = 0;
      ++token;
    }
  }
  block->min_start = block->starts[0];
  block->max_limit = block->limits[rows - 1];
}

// Rows that see nothing stand at the ends: before the first key of a causal mask, or after the last of a window.
TileRows RowsOfTile(const QueryBlock& block, int32_t first, int32_t width, int32_t* begin, int32_t* valid) {
  if (block.limits[0] - first >= width && block.starts[block.rows - 1] <= first) {  // every row sees all of it
    std::fill_n(begin, block.rows, 0);
    std::fill_n(valid, block.rows, width);
    return {.from = 0, .to = block.rows, .cut = false};
  }
  TileRows rows{.from = block.rows, .to = block.rows, .cut = false};
  while (rows.to > 0 && block.starts[rows.to - 1] >= std::min(first + width, block.limits[rows.to - 1])) --rows.to;
  rows.from = rows.to;
  for (int r = rows.to - 1; r >= 0 && block.limits[r] > first; --r) {
    begin[r] = std::max(block.starts[r] - first, 0);
    valid[r] = std::min(block.limits[r] - first, width);
    rows.from = r;
  }
  rows.cut = rows.count() > 0 && begin[rows.to - 1] > 0;
  return rows;
}

void AdjustScores(const AttentionCall& call, const QueryBlock& block, int32_t first, const TileRows& rows,
                  const int32_t* begin, const int32_t* valid, float* s, int64_t s_stride) {
  if (!call.adjusts && !rows.cut) return;
  for (int r = 0; r < rows.count(); ++r, s += s_stride) {
    if (call.adjusts) AdjustRow(call, block, rows.from + r, first, valid[r], s);
    std::fill_n(s, begin[r], -std::numeric_limits<float>::infinity());
  }
}

float SinkTerm(const AttentionCall& call, const QueryBlock& block, int r, float row_max) {
  if (call.sinks == nullptr || block.limits[r] == block.starts[r]) return 0.0F;
  const float sink = call.sinks[block.kv_head * int64_t{call.group} + block.heads[r]];
  return std::exp2(sink * std::numbers::log2e_v<float> - row_max * call.exponent_scale);
}

void StoreOutputRow(const AttentionCall& call, const SequenceView& sequence, const QueryBlock& block, int r,
                    const float* o, float sum) {
  const int64_t start = sequence.out_offset + RowOffset(call, block, call.out, r);
  call.ops->store_output({.o = o,
                          .sum = sum,
                          .head_dim = call.v_head_dim(),
                          .out_dtype = call.out.dtype,
                          .out = call.out.data + start * static_cast<int64_t>(SizeOf(call.out.dtype))});
}

}  // namespace dunlin::kernels::cpu
