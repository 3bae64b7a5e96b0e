// SPDX-License-Identifier: Apache-2.0
// What the engine publishes is what the scheduler counted, field by field, after a run in which all counts differ.
#include <gtest/gtest.h>

#include <set>

#include "engine/loop/engine_counters.h"
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

TEST(EngineCounters, PublishWhatTheSchedulerCounted) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_pages = 8;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(13), 1));
  harness.StepUntilIdle();
  Request scored = Ask(Prompt(13), 1);  // looks nothing up, so that queries are fewer than prompt tokens
  scored.sampling.prompt_logprobs = 0;
  harness.Add(scored);
  harness.StepUntilIdle();
  harness.Add(Ask(Prompt(14), 12));
  harness.Add(Ask(Prompt(7, 30), 12));
  while (harness.scheduler.counters().preemptions == 0) ASSERT_TRUE(harness.Step());

  EngineCounters counters;
  counters.Publish(harness.scheduler, 101);
  EngineStats stats;
  counters.Fill(&stats);
  const SchedulerCounters& expected = harness.scheduler.counters();
  EXPECT_EQ(stats.running, static_cast<int32_t>(harness.scheduler.running().size()));
  EXPECT_EQ(stats.pages_used, harness.scheduler.num_pages_used());
  EXPECT_EQ(stats.steps, 101U);
  EXPECT_EQ(stats.preemptions, expected.preemptions);
  EXPECT_EQ(stats.prompt_tokens, expected.prompt_tokens);
  EXPECT_EQ(stats.prompt_tokens_cached, expected.prompt_tokens_cached);
  EXPECT_EQ(stats.generation_tokens, expected.generation_tokens);
  EXPECT_EQ(stats.prefix_queries, expected.prefix_queries);
  EXPECT_EQ(stats.prefix_hits, expected.prefix_hits);
  EXPECT_FALSE(stats.failed);
  const std::set<uint64_t> values = {static_cast<uint64_t>(stats.pages_used),
                                     stats.steps,
                                     stats.preemptions,
                                     stats.prompt_tokens,
                                     stats.prompt_tokens_cached,
                                     stats.generation_tokens,
                                     stats.prefix_queries};
  EXPECT_EQ(values.size(), 7U) << "two fields have the same value: a swap would go unseen";
  EXPECT_GT(stats.prompt_tokens_cached, 0U);

  counters.SetFailed();
  counters.Fill(&stats);
  EXPECT_TRUE(stats.failed);
}

}  // namespace
}  // namespace dunlin::engine
