// SPDX-License-Identifier: Apache-2.0
// The scheduler, driven by a byte string: sizes of the engine, arrivals, cancels, deadlines, slow readers, constraints,
// NaN, pools that are too small. After every step the scheduler's own invariants hold, and at the end every request has
// the tokens that it gets alone.
#include <span>

#include "tests/fuzz/fuzz_targets.h"
#include "tests/simulation/simulation.h"

namespace dunlin::fuzz {

// Input: what the simulation draws, one byte for a small range, four for a large one; a generator's numbers behind its
// end.
int FuzzScheduler(const uint8_t* data, size_t size) {
  simulation::SimulationStats stats;
  const std::string problem = simulation::RunSimulation(std::span(data, size), &stats);
  DUNLIN_FUZZ_CHECK(problem.empty(), problem);
  return 0;
}

}  // namespace dunlin::fuzz
