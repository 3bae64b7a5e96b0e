// SPDX-License-Identifier: Apache-2.0
// A clock that stands still until a test moves it, for what takes engine::Clock. One test at a time, any thread.
#pragma once

#include <atomic>

#include "engine/request/clock.h"

namespace dunlin::server {

class FakeClock {
 public:
  static engine::TimeNs Now() { return time_.load(); }
  static void Advance(engine::TimeNs by) { time_ += by; }

 private:
  static inline std::atomic<engine::TimeNs> time_{1'000'000'000};
};

}  // namespace dunlin::server
