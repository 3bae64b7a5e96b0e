// SPDX-License-Identifier: Apache-2.0
// Waits of ranks for each other: they spin first, because a rank is rarely behind by more than a few microseconds and a
// thread that sleeps takes longer to wake up; then they sleep, so that ranks without a step cost nothing. Any thread.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>

namespace dunlin::engine {

// Twice what a virtual machine took to wake a thread up.
inline constexpr std::chrono::microseconds kRankSpin{100};

// Tells the core that this thread spins.
inline void PauseSpin() {
#if defined(__aarch64__)
  __asm__ volatile("isb");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns once `value` is not `old`. Whoever changes it calls notify_all.
inline void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old) {
  constexpr int kPausesPerLook = 16;
  const auto deadline = std::chrono::steady_clock::now() + kRankSpin;
  do {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (value.load(std::memory_order_acquire) != old) return;
      PauseSpin();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  value.wait(old, std::memory_order_acquire);
}

}  // namespace dunlin::engine
