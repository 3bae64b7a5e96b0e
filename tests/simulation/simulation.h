// SPDX-License-Identifier: Apache-2.0
// One seeded run of the scheduler against the fake runtime, in virtual time, on one thread, turn by turn: random
// requests, priorities, profiles, deadlines, cancels, slow readers and NaN, in a pool that is too small. Every step is
// checked. levels.h: what is simulated besides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "tests/simulation/events.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

struct RunOptions {
  std::vector<size_t> left_out = {};          // requests that do not come, by their index in the workload
  std::vector<std::string>* trace = nullptr;  // what happened, a line each; null: not wanted
  int32_t max_requests = kMaxRequests;        // of the scheduler's level
};

// "" when every invariant held, else what broke, and when. The same seed gives the same run. Adds to *stats.
std::string RunSimulation(uint64_t seed, const RunOptions& options, SimulationStats* stats);
// The same of what a fuzzer draws (Dice).
std::string RunSimulation(std::span<const uint8_t> draws, SimulationStats* stats);

}  // namespace dunlin::simulation
