// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

TEST(Admission, TakesHigherPriorityFirstAndThenEarlierArrival) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 1;
  SchedulerHarness harness(options);
  const auto add = [&harness](int32_t priority, TimeNs arrival) {
    Request request = Ask(Prompt(3), 2);
    request.priority = priority;
    request.arrival = arrival;
    return harness.Add(request);
  };
  Client* late = add(0, 9);
  Client* early = add(0, 5);
  Client* low = add(-1, 1);
  Client* high = add(2, 20);
  harness.StepUntilIdle();
  EXPECT_LT(high->info().first_scheduled, early->info().first_scheduled);
  EXPECT_LT(early->info().first_scheduled, late->info().first_scheduled);
  EXPECT_LT(late->info().first_scheduled, low->info().first_scheduled);
}

TEST(Admission, RunsNoMoreSequencesThanTheLimit) {
  SchedulerHarness harness;
  for (int i = 0; i < 10; ++i) harness.Add(Ask(Prompt(2, i + 1), 4));
  size_t most = 0;
  while (harness.Step()) most = std::max(most, harness.scheduler.running().size());
  EXPECT_EQ(most, 4U);
}

TEST(Admission, WaitsUntilTheWholePromptWillFitAndLeavesRoomToGrow) {
  SchedulerHarness harness;
  Client* first = harness.Add(Ask(Prompt(44), 8));  // 11 pages, and 2 to grow into
  harness.Step();
  Client* second = harness.Add(Ask(Prompt(16, 5), 2));  // 5 pages: 3 are to spare
  harness.Step();
  EXPECT_EQ(harness.Planned(second), 0);
  harness.StepUntilIdle();
  EXPECT_EQ(first->info().preemptions + second->info().preemptions, 0);
  EXPECT_GE(second->info().first_scheduled, first->info().finished);
}

TEST(Admission, LetsASmallRequestPassALargeOneThatHasNoRoom) {
  SchedulerHarness harness;
  Client* running = harness.Add(Ask(Prompt(40), 8));
  harness.Step();
  Client* large = harness.Add(Ask(Prompt(40, 9), 2));
  Client* small = harness.Add(Ask(Prompt(2, 30), 2));
  harness.StepUntilIdle();
  EXPECT_GE(large->info().first_scheduled, running->info().finished);
  EXPECT_LT(small->info().first_scheduled, running->info().finished);
}

TEST(Admission, LetsNobodyPassOnceThreeTimesTheTokensOfTheOldestHavePassed) {
  SchedulerHarness harness;
  Client* running = harness.Add(Ask(Prompt(8), 40));  // leaves 14 pages, wants up to 12
  harness.Step();
  Client* large = harness.Add(Ask(Prompt(52, 9), 2));
  int32_t passed = 0;
  Client* small = nullptr;
  do {
    small = harness.Add(Ask(Prompt(13, 30), 1));
    while (!small->ended() && !running->ended()) harness.Step();
    passed += small->ended() ? 1 : 0;
  } while (small->ended() && !running->ended());
  harness.StepUntilIdle();
  EXPECT_EQ(passed, 12);  // 12 x 13 tokens are 3 x 52
  EXPECT_GE(small->info().first_scheduled, large->info().first_scheduled);
  EXPECT_GE(large->info().first_scheduled, running->info().finished);
}

TEST(Admission, CountsARequestOutOfTheQueueOnce) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 1;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(3), 3));
  Client* cancelled = harness.Add(Ask(Prompt(5), 3));
  EXPECT_EQ(harness.scheduler.counters().dequeued_requests, 0U);
  harness.Step();
  EXPECT_EQ(harness.scheduler.counters().dequeued_requests, 1U);
  EXPECT_EQ(harness.scheduler.counters().dequeued_tokens, 3U);
  harness.scheduler.End(cancelled->sequence.get(), FinishReason::kCancelled, harness.now);
  EXPECT_EQ(harness.scheduler.counters().dequeued_requests, 2U);
  EXPECT_EQ(harness.scheduler.counters().dequeued_tokens, 8U);
}

TEST(AdmissionDeathTest, ASequenceThatCanNeverFitIsABrokenInvariant) {
  SchedulerHarness harness;
  EXPECT_DEATH(harness.Add(Ask(Prompt(60), 10)), "refused by Validate");
}

}  // namespace
}  // namespace dunlin::engine
