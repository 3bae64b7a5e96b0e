// SPDX-License-Identifier: Apache-2.0
// A block's packed rows of one (sequence, KV head), and what is done to one row's scores, sums and outputs, whatever
// the kernel's geometry and its layout of registers.
#pragma once

#include "kernels/cuda/attention/call.h"
#include "kernels/cuda/device/exp2.h"

namespace dunlin::kernels::cuda {

struct RowBlock {
  SequenceView sequence;
  int32_t kv_head;
  int32_t first_row;  // packed
  int32_t num_rows;   // 0: the block has no work
  int32_t group;
  int32_t key_start;  // the range of keys that the block reads: from the first row's start to the last row's limit
  int32_t key_limit;
  int32_t whole_start;  // the keys that every row sees
  int32_t whole_limit;

  DUNLIN_HD int32_t Token(int32_t row) const { return (first_row + row) / group; }
  DUNLIN_HD int32_t Head(int32_t row) const { return kv_head * group + (first_row + row) % group; }
  DUNLIN_HD bool has(int warp) const { return warp * 16 < num_rows; }  // of warps with 16 rows each
  // Whether every row sees each of the keys [first_key, first_key + num_keys).
  DUNLIN_HD bool SeesAll(int32_t first_key, int32_t num_keys) const {
    return whole_start <= first_key && first_key + num_keys <= whole_limit;
  }
};

// rows_per_block: of the kernel's geometry.
DUNLIN_HD inline RowBlock BlockOf(const AttentionCall& call, int32_t sequence, int32_t kv_head, int32_t block,
                                  int32_t rows_per_block) {
  RowBlock rows{};
  rows.sequence = call.Sequence(sequence);
  rows.kv_head = kv_head;
  rows.first_row = block * rows_per_block;
  rows.num_rows = Clamp(rows.sequence.query_len * call.group - rows.first_row, 0, rows_per_block);
  rows.group = call.group;
  if (rows.num_rows == 0) return rows;
  const int32_t first = rows.Token(0);
  const int32_t last = rows.Token(rows.num_rows - 1);
  rows.key_start = rows.sequence.KeyStart(first);
  rows.key_limit = rows.sequence.KeyLimit(last);
  rows.whole_start = rows.sequence.KeyStart(last);
  rows.whole_limit = rows.sequence.KeyLimit(first);
  return rows;
}

constexpr float kLog2E = 1.44269504F;

// Whether a key takes part in the softmax of a sequence's query token, of a call that has a selection.
DUNLIN_HD inline bool IsSelected(const AttentionCall& call, const RowBlock& block, int32_t token, int32_t key) {
  const int32_t query = call.spans[block.sequence.index].query_start + token;
  const int64_t row = call.selection.rows == nullptr ? query : call.selection.rows[query];
  return (call.selection.bits[row * call.selection.stride + key / 32] >> (key % 32) & 1U) != 0;
}

// The base-2 exponent of one score: scale, softcap, ALiBi, bias, mask and selection applied to a query-key product.
// limit: the row's KeyLimit. kSelects: the call may have a selection. REQUIRES: the row sees the key.
template <bool kSelects>
DUNLIN_HD inline float AdjustedScore(const AttentionCall& call, const RowBlock& block, int32_t row, int32_t key,
                                     int32_t limit, float product) {
  float score = product * call.scale;
  if constexpr (kSelects) {
    if (call.selection.bits != nullptr && !IsSelected(call, block, block.Token(row), key)) return -INFINITY;
  }
  if (call.softcap > 0.0F) score = call.softcap * tanhf(score / call.softcap);
  const int32_t token = block.Token(row);
  const int32_t head = block.Head(row);
  // By the distance from the limit: from the position but for a constant of the row, which the softmax takes out.
  if (call.alibi_slopes != nullptr) score += call.alibi_slopes[head] * static_cast<float>(key - limit);
  if (call.bias.data != nullptr) {
    const int64_t at = block.sequence.index * call.bias.batch_stride + head * call.bias.head_stride +
                       token * call.bias.query_stride + key;
    score += LoadElement(call.bias.dtype, static_cast<const unsigned char*>(call.bias.data), at);
  }
  if (call.mask.data != nullptr) {
    const int64_t at = block.sequence.index * call.mask.batch_stride + head * call.mask.head_stride +
                       token * call.mask.query_stride + key;
    if (call.mask.data[at] == 0) return -INFINITY;
  }
  return score * kLog2E;
}

// What is subtracted from the scores before exponentiation; 0 where all scores are -inf, so that the weights are 0.
DUNLIN_HD inline float CenterOf(float largest) {
  return largest == -INFINITY ? 0.0F : largest;
}

// What the sink of a row's head adds to the sum of its softmax, whose largest exponent is `maximum`: a logit without a
// value. 0 without sinks, and where the row saw no key. row: packed, of the block.
DUNLIN_HD inline float SinkTerm(const AttentionCall& call, const RowBlock& block, int32_t row, float maximum,
                                float sum) {
  if (call.sinks == nullptr || sum == 0.0F) return 0.0F;
  float logit = call.sinks[block.Head(row)];
  if (call.alibi_slopes != nullptr) {  // AdjustedScore leaves out a constant of the row
    const int32_t token = block.Token(row);
    const int32_t position = block.sequence.first_limit + token - call.limit_ahead;
    logit -= call.alibi_slopes[block.Head(row)] * static_cast<float>(block.sequence.KeyLimit(token) - position);
  }
  return Exp2(logit * kLog2E - CenterOf(maximum));
}

// Appends the later of two partial softmaxes to the earlier: value * keep + later * take. An empty part changes
// nothing. The same operations in the same order within one block and in the merge kernel.
struct MergeFactors {
  float maximum;
  float sum;
  float keep;
  float take;

  DUNLIN_HD float operator()(float value, float later) const { return fmaf(value, keep, later * take); }
};
DUNLIN_HD inline MergeFactors MergeOf(float maximum, float sum, float later_maximum, float later_sum) {
  if (later_sum == 0.0F) return {maximum, sum, 1.0F, 0.0F};
  const float largest = later_maximum > maximum ? later_maximum : maximum;
  const float keep = sum == 0.0F ? 0.0F : Exp2(maximum - CenterOf(largest));
  const float take = Exp2(later_maximum - CenterOf(largest));
  return {largest, fmaf(sum, keep, later_sum * take), keep, take};
}

DUNLIN_HD inline void StoreElement(DType dtype, unsigned char* row, int64_t at, float value) {
  if (dtype == DType::kF32) {
    reinterpret_cast<float*>(row)[at] = value;
  } else {
    reinterpret_cast<uint16_t*>(row)[at] = dtype == DType::kF16 ? ToFp16(value) : ToBf16(value);
  }
}

DUNLIN_HD inline int64_t OutputAt(const AttentionCall& call, const RowBlock& block, int32_t row) {
  return block.sequence.out_start + block.Token(row) * call.out.token_stride + block.Head(row) * call.out.head_stride;
}

}  // namespace dunlin::kernels::cuda
