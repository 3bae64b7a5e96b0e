// SPDX-License-Identifier: Apache-2.0
// What the engine thread publishes for metrics and health: plain atomics, written once a step, read without a lock.
// One snapshot may mix values of two steps; each value is exact.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>

#include "engine/request/engine_stats.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

class EngineCounters {
 public:
  // Engine thread.
  void Publish(const Scheduler& scheduler, uint64_t steps) {
    const auto counts = std::bit_cast<Counts>(SequenceCounters(scheduler.counters()));
    for (size_t i = 0; i < counts.size(); ++i) Set(&counts_[i], counts[i]);
    Set(&running_, static_cast<int32_t>(scheduler.running().size()));
    Set(&pages_used_, scheduler.num_pages_used());
    Set(&states_used_, scheduler.num_states_used());
    Set(&states_kept_, scheduler.num_states_kept());
    Set(&states_total_, scheduler.num_states());
    Set(&steps_, steps);
  }
  void NoteStep(TimeNs duration) {
    if (duration > Get(longest_step_ns_)) Set(&longest_step_ns_, duration);
  }
  void SetPaused(bool paused) { Set(&paused_, paused); }
  void SetFailed() { failed_.store(true, std::memory_order_relaxed); }

  // Sets the fields that are published here.
  void Fill(EngineStats* stats) const {
    stats->running = Get(running_);
    stats->pages_used = Get(pages_used_);
    stats->state_slots_used = Get(states_used_);
    stats->state_slots_kept = Get(states_kept_);
    stats->state_slots_total = Get(states_total_);
    stats->steps = Get(steps_);
    stats->longest_step_ns = Get(longest_step_ns_);
    stats->failed = Get(failed_);
    stats->paused = Get(paused_);
    Counts counts;
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = Get(counts_[i]);
    static_cast<SequenceCounters&>(*stats) = std::bit_cast<SequenceCounters>(counts);
  }

 private:
  // The members of SequenceCounters, in order.
  using Counts = std::array<uint64_t, sizeof(SequenceCounters) / sizeof(uint64_t)>;

  template <typename T>
  static void Set(std::atomic<T>* value, T now) {
    value->store(now, std::memory_order_relaxed);
  }
  template <typename T>
  static T Get(const std::atomic<T>& value) {
    return value.load(std::memory_order_relaxed);
  }

  std::atomic<int32_t> running_{0};
  std::atomic<int32_t> pages_used_{0};
  std::atomic<int32_t> states_used_{0};
  std::atomic<int32_t> states_kept_{0};
  std::atomic<int32_t> states_total_{0};
  std::atomic<uint64_t> steps_{0};
  std::atomic<TimeNs> longest_step_ns_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> paused_{false};
  std::array<std::atomic<uint64_t>, sizeof(Counts) / sizeof(uint64_t)> counts_{};
};

}  // namespace dunlin::engine
