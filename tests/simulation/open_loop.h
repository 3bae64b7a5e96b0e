// SPDX-License-Identifier: Apache-2.0
// An engine under an open loop, in virtual time: requests with deadlines come as they come, are refused by the gate or
// by a full queue, and the others are computed on a device that takes its time. What is counted is who ends in time.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/loop/deadline_gate.h"
#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

inline constexpr engine::TimeNs kMs = 1'000'000;
inline constexpr engine::TimeNs kSecond = 1000 * kMs;

// Requests of one kind.
struct Stream {
  double rate = 0.0;  // a second
  engine::TimeNs from = 0;
  engine::TimeNs to = 0;
  engine::TimeNs time_limit = kSecond;  // from a request's arrival to its deadline; 0: none
  int32_t prompt_tokens = 64;
  int32_t max_tokens = 32;
  bool ignore_eos = true;
  engine::TenantId tenant = engine::kSharedTenant;
  int32_t priority = 0;
};

struct StreamResult {
  int64_t offered = 0;
  int64_t refused = 0;  // at once
  int64_t dropped = 0;  // while it waited
  int64_t late = 0;     // begun, and not complete in time
  int64_t in_time = 0;
  double goodput = 0.0;  // in_time a second
};

struct OpenLoopOptions {
  int32_t max_sequences = 64;
  int32_t max_queued = 256;
  bool gate = true;  // else everything that the queue has room for comes in
  // Others take part of the processors: of every 250 ms a third are 1.5 times and a sixth 2.5 times as slow.
  bool slow_spells = false;
  double context_ns = 0.0;  // of a drawn token, for each token of its context
};

// Runs the streams to their end, from the same dice each time. One result for each.
std::vector<StreamResult> RunOpenLoop(const std::vector<Stream>& streams, const OpenLoopOptions& options = {});

}  // namespace dunlin::simulation
