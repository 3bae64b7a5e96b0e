// SPDX-License-Identifier: Apache-2.0
// Detects overload: a call was refused for lack of capacity within the last second.
// Thread rule: any thread.
#pragma once

#include <atomic>

#include "engine/request/types.h"

namespace dunlin::server {

class Overload {
 public:
  void OnRefusal(engine::TimeNs now) { last_refusal_.store(now, std::memory_order_relaxed); }
  bool recent(engine::TimeNs now) const {
    const engine::TimeNs last = last_refusal_.load(std::memory_order_relaxed);
    return last != 0 && now - last < kWindow;
  }

 private:
  static constexpr engine::TimeNs kWindow = 1'000'000'000;
  std::atomic<engine::TimeNs> last_refusal_{0};  // 0: none yet
};

}  // namespace dunlin::server
