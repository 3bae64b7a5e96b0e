// SPDX-License-Identifier: Apache-2.0
// What the scans over heads' states share: the state's check, softplus, and how a call is cut into tasks.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "kernels/api/recurrent.h"
#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kScanRows = 32;     // whose gates are computed at once: 512 bytes on the stack
inline constexpr int64_t kScanColumns = 32;  // the fewest of a task

inline bool ValidState(const StateSlots& state, int64_t floats) {
  return state.pool != nullptr && state.slots != nullptr && state.slot_stride >= floats;
}

inline float Softplus(float x) {
  return x > 20.0F ? x : std::log1p(std::exp(x));
}

// Some columns of a head of a sequence.
struct ScanTask {
  const SequenceSpan& span;
  int64_t head;
  int64_t first_column;
  int64_t num_columns;
  float* state;  // [ceil(num_columns / kStateLanes), state_rows, kStateLanes] of the columns
};

// What a scan goes through.
struct ScanShape {
  int64_t num_heads;
  int64_t num_columns;  // of a head's state
  int64_t state_rows;   // of a column
  int64_t head_floats;  // of a head's state
};

// run(ScanTask) for all heads of all sequences. A sequence's state is 0 before its position 0.
template <typename Run>
void ForEachScan(DeviceContext* context, const ScanShape& shape, const StateSlots& state, const SequenceSpan* sequences,
                 int64_t num_sequences, const Run& run) {
  // Whole heads where these keep all threads busy: what rows have in common is then computed once.
  const int64_t heads = num_sequences * shape.num_heads;
  const int64_t most = (shape.num_columns + kScanColumns - 1) / kScanColumns;
  const int64_t parts = std::clamp<int64_t>((2 * context->pool.num_threads() + heads - 1) / heads, 1, most);
  const int64_t part_columns = (most + parts - 1) / parts * kScanColumns;
  context->pool.Run(heads * parts, [&](int64_t task, int) {
    const int64_t sequence = task / parts / shape.num_heads;
    const int64_t head = task / parts % shape.num_heads;
    const int64_t first = task % parts * part_columns;
    const int64_t count = std::min<int64_t>(part_columns, shape.num_columns - first);
    if (count <= 0) return;
    float* columns =
        state.pool + state.slots[sequence] * state.slot_stride + head * shape.head_floats + first * shape.state_rows;
    if (sequences[sequence].first_position == 0) {
      const int64_t blocks = (count + kStateLanes - 1) / kStateLanes;
      std::fill_n(columns, blocks * kStateLanes * shape.state_rows, 0.0F);
    }
    run(ScanTask{sequences[sequence], head, first, count, columns});
  });
}

}  // namespace dunlin::kernels::cpu
