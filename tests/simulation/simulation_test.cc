// SPDX-License-Identifier: Apache-2.0
// Thousands of seeds, each a separate run. DUNLIN_SEEDS sets how many, DUNLIN_FIRST_SEED where they start: a failure
// names its seed, and that seed alone fails again.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "engine/request/types.h"
#include "tests/simulation/levels.h"
#include "tests/simulation/shrink.h"

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

// The runs are only worth something when they reach what they are about: each event so often in a hundred runs.
struct Least {
  Event event;
  int64_t in_hundred;
};

void ExpectReached(const SimulationStats& stats, std::span<const Least> least) {
  const int64_t runs = stats[Event::kRuns];
  if (runs < 1000) return;
  for (const Least& row : least) {
    EXPECT_GT(stats[row.event] * 100, runs * row.in_hundred) << kEventTable[static_cast<size_t>(row.event)].name;
  }
}

SimulationStats RunSeeds(const Level& level, uint64_t part) {
  const uint64_t first = FromEnvironment("DUNLIN_FIRST_SEED", 1);
  const uint64_t count = FromEnvironment("DUNLIN_SEEDS", kDefaultSeeds / part);
  SimulationStats stats;
  for (uint64_t seed = first; seed < first + count; ++seed) {
    const std::string problem = level.run(seed, {}, &stats);
    EXPECT_EQ(problem, "") << "simulate --level " << level.name << " --seeds " << seed << ":" << seed + 1;
    if (!problem.empty()) break;
  }
  return stats;
}

TEST(Simulation, EveryRequestEndsOnceWithTheTokensItGetsAlone) {
  const SimulationStats stats = RunSeeds(kLevels[0], 1);
  static constexpr Least kLeast[] = {
      {Event::kPreemptions, 60},       {Event::kPrefixHits, 100},         {Event::kSlidingPreemptions, 5},
      {Event::kSlidingPrefixHits, 25}, {Event::kRecurrentPreemptions, 5}, {Event::kRecurrentPrefixHits, 25},
      {Event::kRecurrentFollowed, 1},  {Event::kRecurrentAccepted, 25},   {Event::kSlid, 100},
      {Event::kFollowed, 5},           {Event::kPlannedAhead, 500},       {Event::kForced, 20},
      {Event::kAccepted, 100},         {Event::kRejected, 100},           {Event::kMixedSteps, 100},
      {Event::kCacheCleared, 5},       {Event::kAwaitedPages, 5},         {Event::kPoolsTooSmall, 1},
  };
  ExpectReached(stats, kLeast);
  if (stats[Event::kRuns] < 1000) return;
  using engine::FinishReason;
  for (const FinishReason reason :
       {FinishReason::kStop, FinishReason::kLength, FinishReason::kCancelled, FinishReason::kDeadline,
        FinishReason::kSlowReader, FinishReason::kNumerical, FinishReason::kConstraint}) {
    EXPECT_GT(stats.ended_by[static_cast<size_t>(reason)], stats[Event::kRuns] / 20);
  }
}

TEST(Simulation, ACallsAnswerDoesNotDependOnWhatHappensToTheServer) {
  const SimulationStats stats = RunSeeds(kLevels[1], 4);
  static constexpr Least kLeast[] = {
      {Event::kAdmitted, 100},
      {Event::kRefusedRequests, 1},
      {Event::kRefusedBytes, 1},
      {Event::kRefusedBytesOfCaller, 1},
      {Event::kRefusedSuspended, 1},
      {Event::kRefusedClosed, 1},
      {Event::kRefusedTenantShare, 1},
      {Event::kRefusedOutputBytes, 1},
      {Event::kQuotaRequests, 1},
      {Event::kQuotaTokens, 1},
      {Event::kQuotaStreams, 1},
      {Event::kQuotaChanged, 1},
      {Event::kRefusedDeadline, 1},
      {Event::kQueueFull, 1},
      {Event::kNotAccepting, 1},
      {Event::kCancelledBeforeSubmit, 1},
      {Event::kStopStrings, 1},
      {Event::kPausedAbort, 1},
      {Event::kPausedWait, 1},
      {Event::kPausedKeep, 1},
      {Event::kReloads, 1},
      {Event::kDrains, 1},
      {Event::kStopsWithLive, 1},
      {Event::kLaunchFailures, 1},
      {Event::kCollectFailures, 1},
      {Event::kRankFailures, 1},
      {Event::kSlowRanks, 1},
      {Event::kStalledRanks, 1},
      {Event::kStalls, 1},
      {Event::kAwaitedPages, 1},
      {Event::kPreemptions, 10},
      {Event::kPrefixHits, 10},
      {Event::kMixedSteps, 10},
  };
  ExpectReached(stats, kLeast);
}

TEST(Simulation, ModelsComeAndGoWithoutHarmToRequests) {
  const SimulationStats stats = RunSeeds(kLevels[2], 4);
  static constexpr Least kLeast[] = {
      {Event::kModelRequests, 100},   {Event::kModelWaits, 50},  {Event::kModelLoads, 100},
      {Event::kModelSwaps, 50},       {Event::kModelFaults, 20}, {Event::kModelUnusedUnloads, 50},
      {Event::kModelCallsRefused, 5},
  };
  ExpectReached(stats, kLeast);
}

TEST(Simulation, TheSameSeedGivesTheSameRun) {
  for (const Level& level : kLevels) {
    SimulationStats once;
    SimulationStats again;
    std::vector<std::string> trace_of_once;
    std::vector<std::string> trace_of_again;
    EXPECT_EQ(level.run(7, {{}, &trace_of_once}, &once), "");
    EXPECT_EQ(level.run(7, {{}, &trace_of_again}, &again), "");
    EXPECT_EQ(once.counts, again.counts);
    EXPECT_FALSE(trace_of_once.empty());
    EXPECT_EQ(trace_of_once, trace_of_again);
  }
}

TEST(Simulation, AFailureIsShrunkToTheRequestsItNeeds) {
  const auto fails = [](const std::vector<size_t>& left_out) {
    return !std::binary_search(left_out.begin(), left_out.end(), 3) &&
           !std::binary_search(left_out.begin(), left_out.end(), 5);
  };
  EXPECT_EQ(Shrink(8, fails), (std::vector<size_t>{0, 1, 2, 4, 6, 7}));
}

}  // namespace
}  // namespace dunlin::simulation
