// SPDX-License-Identifier: Apache-2.0
// Counters and gauges of an engine, as metrics and health read them. A value type.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/request/types.h"

namespace dunlin::engine {

// What a scheduler counts since start and its engine publishes: every member, each a uint64_t.
struct SequenceCounters {
  uint64_t preemptions = 0;
  uint64_t prompt_tokens = 0;  // of admitted requests
  uint64_t prompt_tokens_cached = 0;
  uint64_t generation_tokens = 0;
  uint64_t prefix_queries = 0;  // tokens looked up, at first admissions
  uint64_t prefix_hits = 0;     // tokens found, at first admissions
  uint64_t drafts = 0;          // times that tokens of a sequence were guessed and verified
  uint64_t draft_tokens = 0;
  uint64_t accepted_tokens = 0;                                // of draft_tokens: drawn
  std::array<uint64_t, kMaxDrafts> accepted_at_position = {};  // of accepted_tokens, by place among their draft's
};

// A snapshot for metrics and health; counters since start.
struct EngineStats : SequenceCounters {
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t pages_used = 0;     // owned by sequences (cached pages that can be evicted are free)
  int32_t pages_total = 0;    // as planned
  int32_t pages_backed = 0;   // of these: that have memory, and may be used
  int32_t pages_missing = 0;  // of these: that will have none; 0 until that is known
  // Of a recurrent model: slots that sequences own, those whose state the prefix cache knows, and all.
  int32_t state_slots_used = 0;
  int32_t state_slots_kept = 0;
  int32_t state_slots_total = 0;
  uint64_t steps = 0;                   // completed
  uint64_t progress = 0;                // advances with each operation and each step; the liveness counter
  int64_t longest_step_ns = 0;          // since start
  int64_t longest_mask_wait_ns = 0;     // since start: of a step, for the masks of constrained outputs
  bool idle = true;                     // nothing queued, running or in flight
  bool paused = false;                  // no step is computed until Engine::Resume; requests wait
  bool failed = false;                  // the device failed; nothing is served from then on
  int32_t rank_at_fault = -1;           // of a divided model that has failed or stands still: the rank; -1: unknown
  size_t device_memory_peak_bytes = 0;  // of the device, over all its models; 0 if unknown
};

}  // namespace dunlin::engine
