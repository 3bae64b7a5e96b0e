// SPDX-License-Identifier: Apache-2.0
// What the engine thread publishes for metrics and health: plain atomics, written once a step, read without a lock.
// One snapshot may mix values of two steps; each value is exact.
#pragma once

#include <atomic>
#include <cstdint>

#include "engine/request/engine_stats.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

class EngineCounters {
 public:
  // Engine thread.
  void Publish(const Scheduler& scheduler, uint64_t steps) {
    const SchedulerCounters& counters = scheduler.counters();
    Set(&running_, static_cast<int32_t>(scheduler.running().size()));
    Set(&pages_used_, scheduler.num_pages_used());
    Set(&steps_, steps);
    Set(&preemptions_, counters.preemptions);
    Set(&prompt_tokens_, counters.prompt_tokens);
    Set(&prompt_tokens_cached_, counters.prompt_tokens_cached);
    Set(&generation_tokens_, counters.generation_tokens);
    Set(&prefix_queries_, counters.prefix_queries);
    Set(&prefix_hits_, counters.prefix_hits);
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
    stats->steps = Get(steps_);
    stats->longest_step_ns = Get(longest_step_ns_);
    stats->failed = Get(failed_);
    stats->paused = Get(paused_);
    stats->preemptions = Get(preemptions_);
    stats->prompt_tokens = Get(prompt_tokens_);
    stats->prompt_tokens_cached = Get(prompt_tokens_cached_);
    stats->generation_tokens = Get(generation_tokens_);
    stats->prefix_queries = Get(prefix_queries_);
    stats->prefix_hits = Get(prefix_hits_);
  }

 private:
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
  std::atomic<uint64_t> steps_{0};
  std::atomic<TimeNs> longest_step_ns_{0};
  std::atomic<bool> failed_{false};
  std::atomic<bool> paused_{false};
  std::atomic<uint64_t> preemptions_{0};
  std::atomic<uint64_t> prompt_tokens_{0};
  std::atomic<uint64_t> prompt_tokens_cached_{0};
  std::atomic<uint64_t> generation_tokens_{0};
  std::atomic<uint64_t> prefix_queries_{0};
  std::atomic<uint64_t> prefix_hits_{0};
};

}  // namespace dunlin::engine
