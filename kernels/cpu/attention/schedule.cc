// SPDX-License-Identifier: Apache-2.0
// Filling and ordering of the block list.
#include "kernels/cpu/attention/schedule.h"

#include <algorithm>

namespace dunlin::kernels::cpu {

int FillSchedule(const AttentionCall& call, int block_rows, int max_items, ScheduleCursor* cursor,
                 ScheduleItem* items) {
  int count = 0;
  while (cursor->sequence < call.num_sequences && count < max_items) {
    const SequenceView sequence = call.Sequence(cursor->sequence);
    const int64_t rows = PackedRows(call, sequence);
    for (; cursor->row < rows && count < max_items; cursor->row += block_rows) {
      const auto num_rows = static_cast<int32_t>(std::min<int64_t>(block_rows, rows - cursor->row));
      const auto last_token = static_cast<int32_t>((cursor->row + num_rows - 1) / call.group);
      items[count++] = {.sequence = cursor->sequence,
                        .num_rows = num_rows,
                        .first_row = cursor->row,
                        .first_key = sequence.KeyStart(static_cast<int32_t>(cursor->row / call.group)),
                        .end_key = sequence.KeyLimit(last_token)};
    }
    if (cursor->row >= rows) *cursor = {.sequence = cursor->sequence + 1, .row = 0};
  }
  std::sort(items, items + count, [](const ScheduleItem& a, const ScheduleItem& b) {
    const int64_t cost_a = int64_t{a.end_key - a.first_key} * a.num_rows;
    const int64_t cost_b = int64_t{b.end_key - b.first_key} * b.num_rows;
    if (cost_a != cost_b) return cost_a > cost_b;
    return a.sequence != b.sequence ? a.sequence < b.sequence : a.first_row < b.first_row;
  });
  return count;
}

int64_t CountTasks(const AttentionCall& call, int block_rows, int64_t more_than, int64_t enough) {
  int64_t tasks = 0;
  for (int32_t i = 0; i < call.num_sequences && tasks < enough; ++i) {
    const int64_t rows = PackedRows(call, call.Sequence(i));
    if (rows > more_than) tasks += CeilDiv(rows, block_rows) * call.num_kv_heads();
  }
  return tasks;
}

}  // namespace dunlin::kernels::cpu
