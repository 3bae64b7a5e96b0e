// SPDX-License-Identifier: Apache-2.0
// The process's monotonic clock in the engine's unit. The engine takes it as an argument; the serving core and the
// transports use the same clock for arrivals and deadlines. Any thread.
#pragma once

#include <chrono>

#include "engine/request/types.h"

namespace dunlin::server {

inline engine::TimeNs MonotonicNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace dunlin::server
