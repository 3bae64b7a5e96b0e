// SPDX-License-Identifier: Apache-2.0
// The load generator's clock: CLOCK_MONOTONIC in nanoseconds, as one number that fits an atomic.
#pragma once

#include <chrono>
#include <cstdint>

namespace dunlin::tools::load {

using TimeNs = int64_t;

inline constexpr TimeNs kNsPerMs = 1'000'000;
inline constexpr TimeNs kNsPerSecond = 1'000'000'000;

inline TimeNs Now() {
  return std::chrono::steady_clock::now().time_since_epoch() / std::chrono::nanoseconds(1);
}

inline std::chrono::steady_clock::time_point TimePoint(TimeNs time) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(time));
}

inline double ToMs(TimeNs duration) {
  return static_cast<double>(duration) / static_cast<double>(kNsPerMs);
}

inline double ToSeconds(TimeNs duration) {
  return static_cast<double>(duration) / static_cast<double>(kNsPerSecond);
}

}  // namespace dunlin::tools::load
