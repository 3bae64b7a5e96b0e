// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

// Three requests that start small and grow beyond the pool together.
SchedulerOptions SmallPool(int32_t num_pages) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_pages = num_pages;
  return options;
}

TEST(Preemption, PreemptsNewestSequenceWhenPagesRunOut) {
  SchedulerHarness harness(SmallPool(9));
  Client* oldest = harness.Add(Ask(Prompt(3), 20));
  Client* middle = harness.Add(Ask(Prompt(3, 10), 20));
  Client* newest = harness.Add(Ask(Prompt(3, 20), 20));
  harness.StepUntilIdle();
  EXPECT_EQ(oldest->info().preemptions, 0);
  EXPECT_GT(newest->info().preemptions, 0);
  EXPECT_GE(newest->info().preemptions, middle->info().preemptions);
  for (const Client* client : {oldest, middle, newest}) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Preemption, PreemptsLowPriorityBeforeLateArrival) {
  SchedulerHarness harness(SmallPool(9));
  Request low = Ask(Prompt(3), 20);
  low.priority = -1;
  Client* early_and_low = harness.Add(low);
  harness.Add(Ask(Prompt(3, 10), 20));
  Client* late = harness.Add(Ask(Prompt(3, 20), 20));
  harness.StepUntilIdle();
  EXPECT_GT(early_and_low->info().preemptions, 0);
  EXPECT_GE(early_and_low->info().preemptions, late->info().preemptions);
}

TEST(Preemption, GivesBackThePagesAndComputesAgainWithoutRepeatingATokenToTheClient) {
  SchedulerOptions options = SmallPool(6);
  options.prefix_cache = false;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(3), 20));
  Client* newest = harness.Add(Ask(Prompt(3, 10), 20));
  while (newest->sequence->info.preemptions == 0) ASSERT_TRUE(harness.Step());
  EXPECT_EQ(newest->sequence->state, SequenceState::kWaiting);
  EXPECT_TRUE(newest->sequence->pages.empty());
  EXPECT_EQ(newest->sequence->num_computed, 0);
  const size_t told = newest->sink->tokens.size();
  EXPECT_GT(told, 0U);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*newest);
}

TEST(Preemption, DoesNotTakeTheVictimBackInTheSameStep) {
  SchedulerHarness harness(SmallPool(6));
  harness.Add(Ask(Prompt(3), 20));
  harness.Add(Ask(Prompt(3, 10), 20));
  uint64_t preemptions = 0;
  while (harness.Step()) {
    if (harness.scheduler.counters().preemptions == preemptions) continue;
    preemptions = harness.scheduler.counters().preemptions;
    EXPECT_FALSE(harness.scheduler.waiting().empty());
  }
  EXPECT_GT(preemptions, 0U);
}

TEST(Preemption, FinishesEveryoneInAPoolForOneWithoutThePrefixCache) {
  SchedulerOptions options = SmallPool(6);
  options.prefix_cache = false;
  SchedulerHarness harness(options);
  std::vector<Client*> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(harness.Add(Ask(Prompt(3, i * 5 + 1), 22)));
  harness.StepUntilIdle();
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  // Bounded: recomputing is the exception. Eight requests that fit one and a half at a time.
  EXPECT_LE(harness.scheduler.counters().preemptions, 16U);
}

TEST(Preemption, SparesSequencesInFlightAndStillServesTheOldest) {
  SchedulerHarness harness(SmallPool(6), 2);
  Client* oldest = harness.Add(Ask(Prompt(3), 21));
  harness.Launch();
  Client* newest = harness.Add(Ask(Prompt(3, 10), 21));
  harness.Launch();
  harness.Collect();
  harness.StepUntilIdle();
  EXPECT_EQ(oldest->info().preemptions, 0);
  EXPECT_GT(newest->info().preemptions, 0);
  SchedulerHarness::ExpectAnswerAsAlone(*oldest);
  SchedulerHarness::ExpectAnswerAsAlone(*newest);
}

TEST(Preemption, ScoresEachPromptPositionOnce) {
  SchedulerHarness harness(SmallPool(6));
  harness.Add(Ask(Prompt(3), 20));
  Request scored = Ask(Prompt(6, 10), 16);
  scored.sampling.prompt_logprobs = 0;
  Client* client = harness.Add(scored);
  harness.StepUntilIdle();
  EXPECT_GT(client->info().preemptions, 0);
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

}  // namespace
}  // namespace dunlin::engine
