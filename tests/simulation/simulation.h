// SPDX-License-Identifier: Apache-2.0
// One seeded run of the scheduler against the fake runtime, in virtual time, on one thread: random requests,
// priorities, profiles, deadlines, cancels, slow readers and NaN, in a pool that is too small. Every step is checked.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dunlin::simulation {

struct SimulationStats {
  int64_t steps = 0;
  int64_t requests = 0;
  int64_t preemptions = 0;
  int64_t prefix_hits = 0;          // tokens
  int64_t sliding_preemptions = 0;  // of models with windows
  int64_t sliding_prefix_hits = 0;
  int64_t recurrent_preemptions = 0;  // of models with states
  int64_t recurrent_prefix_hits = 0;
  int64_t recurrent_followed = 0;  // as followed
  int64_t slid = 0;                // commits behind which a sequence had given pages back, counted by sequence
  int64_t followed = 0;            // plans in which a sequence waited for pages that another computes
  int64_t forced = 0;              // tokens appended behind a drawn one
  int64_t ended_by[16] = {};       // by FinishReason
};

// "" when every invariant held, else what broke, and when. The same seed gives the same run. Adds to *stats.
std::string RunSimulation(uint64_t seed, SimulationStats* stats);
// The same of what a fuzzer draws (Dice).
std::string RunSimulation(std::span<const uint8_t> draws, SimulationStats* stats);

}  // namespace dunlin::simulation
