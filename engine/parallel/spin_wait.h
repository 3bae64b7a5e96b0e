// SPDX-License-Identifier: Apache-2.0
// Waits of ranks for each other: they spin first, because a rank is rarely behind by more than a few microseconds and a
// thread that sleeps takes longer to wake up; then they sleep, so that ranks without a step cost nothing. Where there
// are more ranks than processors, they sleep at once: who spins holds the processor of a rank that is behind. Any
// thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <limits>
#include <thread>

namespace dunlin::engine {

// Twice what a virtual machine took to wake a thread up.
inline constexpr std::chrono::microseconds kRankSpin{100};

// How long one rank's thread spins. Where others hold the processors, a rank that is behind comes milliseconds later:
// after such a wait it spins half as long, down to a sixteenth, and as long as ever after the first short one.
class SpinTime {
 public:
  explicit SpinTime(int32_t num_ranks)
      : longest_(num_ranks > Processors() ? std::chrono::microseconds{0} : kRankSpin), now_(longest_) {}

  std::chrono::microseconds now() const { return now_; }
  void Adapt(std::chrono::steady_clock::duration waited) {
    now_ = waited <= 2 * longest_ ? longest_ : std::max(now_ / 2, longest_ / 16);
  }

 private:
  static int32_t Processors() {  // where the system doesn't tell, as many as ranks
    const unsigned count = std::thread::hardware_concurrency();
    return count == 0 ? std::numeric_limits<int32_t>::max() : static_cast<int32_t>(count);
  }

  std::chrono::microseconds longest_;
  std::chrono::microseconds now_;
};

// Tells the core that this thread spins.
inline void PauseSpin() {
#if defined(__aarch64__)
  __asm__ volatile("isb");
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Returns once `value` is not `old`. Whoever changes it calls notify_all.
inline void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old, SpinTime& spin) {
  constexpr int kPausesPerLook = 16;
  const auto start = std::chrono::steady_clock::now();
  auto waited = std::chrono::steady_clock::duration::zero();
  while (waited < spin.now()) {
    for (int i = 0; i < kPausesPerLook; ++i) {
      if (value.load(std::memory_order_acquire) != old) return spin.Adapt(waited);
      PauseSpin();
    }
    waited = std::chrono::steady_clock::now() - start;
  }
  value.wait(old, std::memory_order_acquire);
  spin.Adapt(std::chrono::steady_clock::now() - start);
}

}  // namespace dunlin::engine
