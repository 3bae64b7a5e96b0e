// SPDX-License-Identifier: Apache-2.0
// Thousands of seeds, each a separate run. DUNLIN_SEEDS sets how many, DUNLIN_FIRST_SEED where they start: a failure
// names its seed, and that seed alone fails again.
#include "tests/simulation/simulation.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "engine/request/types.h"

namespace dunlin::simulation {
namespace {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr uint64_t kDefaultSeeds = 2000;
#else
constexpr uint64_t kDefaultSeeds = 20000;  // some five seconds
#endif

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

TEST(Simulation, EveryRequestEndsOnceWithTheTokensItGetsAlone) {
  const uint64_t first = FromEnvironment("DUNLIN_FIRST_SEED", 1);
  const uint64_t count = FromEnvironment("DUNLIN_SEEDS", kDefaultSeeds);
  SimulationStats stats;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    ASSERT_EQ(RunSimulation(seed, &stats), "") << "DUNLIN_FIRST_SEED=" << seed << " DUNLIN_SEEDS=1";
  }
  RecordProperty("steps", std::to_string(stats.steps));
  RecordProperty("preemptions", std::to_string(stats.preemptions));
  RecordProperty("followed", std::to_string(stats.followed));
  if (count < 1000) return;
  // The runs are only worth something when they reach what they are about.
  EXPECT_GT(stats.preemptions, static_cast<int64_t>(count * 4 / 5));
  EXPECT_GT(stats.prefix_hits, static_cast<int64_t>(count));
  EXPECT_GT(stats.sliding_preemptions, static_cast<int64_t>(count / 20));
  EXPECT_GT(stats.sliding_prefix_hits, static_cast<int64_t>(count / 4));
  EXPECT_GT(stats.recurrent_preemptions, static_cast<int64_t>(count / 20));
  EXPECT_GT(stats.recurrent_prefix_hits, static_cast<int64_t>(count / 4));
  EXPECT_GT(stats.recurrent_followed, static_cast<int64_t>(count / 100));
  EXPECT_GT(stats.slid, static_cast<int64_t>(count));
  EXPECT_GT(stats.followed, static_cast<int64_t>(count / 20));
  EXPECT_GT(stats.forced, static_cast<int64_t>(count / 5));
  using engine::FinishReason;
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled, FinishReason::kDeadline,
        FinishReason::kSlowReader, FinishReason::kNumerical, FinishReason::kConstraint}) {
    EXPECT_GT(stats.ended_by[static_cast<size_t>(reason)], static_cast<int64_t>(count / 20));
  }
}

TEST(Simulation, TheSameSeedGivesTheSameRun) {
  SimulationStats once;
  SimulationStats again;
  EXPECT_EQ(RunSimulation(7, &once), "");
  EXPECT_EQ(RunSimulation(7, &again), "");
  EXPECT_EQ(once.steps, again.steps);
  EXPECT_EQ(once.preemptions, again.preemptions);
}

}  // namespace
}  // namespace dunlin::simulation
