// SPDX-License-Identifier: Apache-2.0
// What a seed is run through. Each level draws the same workload in the same way, and has its own checks.
#pragma once

#include <cstdint>
#include <string>

#include "tests/simulation/simulation.h"

namespace dunlin::simulation {

// Calls come to a fake edge through Admission, quotas and DeadlineGate to the mailbox of an EngineLoop, which a reload
// replaces. With cancels, stop strings, pauses, drains, stops, stalled steps and device errors. As RunSimulation.
std::string RunServer(uint64_t seed, const RunOptions& options, SimulationStats* stats);

// Models are loaded, replaced and unloaded (server/models/model_lifecycle.h) while requests use them: by calls, the
// config, a watched folder, requests and idle time, within a memory limit. As RunSimulation; left_out: of its events.
std::string RunRepository(uint64_t seed, const RunOptions& options, SimulationStats* stats);

struct Level {
  const char* name;
  std::string (*run)(uint64_t seed, const RunOptions& options, SimulationStats* stats);
};
inline constexpr Level kLevels[] = {{"scheduler", RunSimulation}, {"server", RunServer}, {"repository", RunRepository}};

}  // namespace dunlin::simulation
