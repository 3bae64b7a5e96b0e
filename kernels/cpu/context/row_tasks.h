// SPDX-License-Identifier: Apache-2.0
// Rows shared out among the pool's threads.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/cpu/context/context.h"

namespace dunlin::kernels::cpu {

inline constexpr int64_t kTaskElements = 1 << 14;

// body(row) for every row, several rows to a task.
template <typename Body>
void ForEachRow(DeviceContext* context, int64_t num_rows, int64_t columns, const Body& body) {
  const int64_t rows_per_task = std::max<int64_t>(1, kTaskElements / columns);
  context->pool.Run((num_rows + rows_per_task - 1) / rows_per_task, [&](int64_t task, int) {
    const int64_t end = std::min(num_rows, (task + 1) * rows_per_task);
    for (int64_t row = task * rows_per_task; row < end; ++row) body(row);
  });
}

}  // namespace dunlin::kernels::cpu
