// SPDX-License-Identifier: Apache-2.0
// Partial softmaxes of a row computed by several blocks over disjoint keys, and the merge that completes them. A part
// is a fixed range of keys at an absolute multiple of its size: EFFICIENT's chunk, FLASH's split. A block that walks
// through all parts merges them by the same operations, so the division of work does not change a bit.
#pragma once

#include "kernels/cuda/attention/row_block.h"

namespace dunlin::kernels::cuda {

// Layout of parts: per task (sequence, KV head, block of rows) and part, [rows] maxima, [rows] sums, [rows, v_head_dim]
// values.
struct PartialStore {
  float* data;        // null: no parts, a block handles all keys of a task
  int32_t num_parts;  // per task, at most
  int32_t rows;       // per task
  int32_t v_head_dim;
  int32_t row_blocks;  // per (sequence, KV head), of `rows` each

  DUNLIN_HD int64_t Task(const RowBlock& block, int32_t num_kv_heads) const {
    return (int64_t{block.sequence.index} * num_kv_heads + block.kv_head) * row_blocks + block.first_row / rows;
  }
  DUNLIN_HD int64_t floats_per_part() const { return int64_t{rows} * (v_head_dim + 2); }
  DUNLIN_HD float* Part(int64_t task, int32_t part) const {
    return data + (task * num_parts + part) * floats_per_part();
  }
};

// The output at (row, dim) of a task, PartialStore::Task(block): its parts merged in ascending order.
DUNLIN_HD inline void MergeParts(const AttentionCall& call, const PartialStore& store, int64_t task,
                                 const RowBlock& block, int32_t part_keys, int32_t row, int32_t dim) {
  float maximum = -INFINITY;
  float sum = 0.0F;
  float value = 0.0F;
  const int32_t first = block.key_start / part_keys;
  const int32_t end = (block.key_limit + part_keys - 1) / part_keys;
  for (int32_t index = first; index < end; ++index) {
    const float* part = store.Part(task, index);
    const MergeFactors merge = MergeOf(maximum, sum, part[row], part[store.rows + row]);
    value = merge(value, part[2 * store.rows + int64_t{row} * store.v_head_dim + dim]);
    maximum = merge.maximum;
    sum = merge.sum;
  }
  sum += SinkTerm(call, block, row, maximum, sum);
  const float factor = sum == 0.0F ? 0.0F : 1.0F / sum;
  StoreElement(call.out.dtype, call.out.data, OutputAt(call, block, row) + dim, value * factor);
}

}  // namespace dunlin::kernels::cuda
