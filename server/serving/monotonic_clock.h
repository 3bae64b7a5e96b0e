// SPDX-License-Identifier: Apache-2.0
// The process's monotonic clock in the engine's unit. The engine takes it as an argument; the edge stamps arrivals and
// deadlines with the same one. Any thread.
#pragma once

#include <chrono>

#include "engine/types.h"

namespace dunlin::server {

inline engine::TimeNs MonotonicNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace dunlin::server
