// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

TEST(Ending, CancelOfAWaitingRequestEndsItAtOnce) {
  SchedulerHarness harness;
  Client* client = harness.Add(Ask(Prompt(5), 8));
  harness.scheduler.End(client->sequence.get(), FinishReason::kCancelled, 7);
  EXPECT_EQ(client->reason(), FinishReason::kCancelled);
  EXPECT_EQ(client->info().finished, 7);
  EXPECT_EQ(client->info().first_scheduled, 0);
  EXPECT_TRUE(harness.scheduler.empty());
}

TEST(Ending, CancelBetweenStepsFreesThePagesAtOnce) {
  SchedulerHarness harness;
  Client* client = harness.Add(Ask(Prompt(30), 8));
  harness.Step();
  EXPECT_GT(harness.scheduler.num_pages_used(), 0);
  harness.scheduler.End(client->sequence.get(), FinishReason::kCancelled, harness.now);
  EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
}

TEST(Ending, CancelInFlightKeepsThePagesUntilTheStepIsCommitted) {
  SchedulerHarness harness(SchedulerHarness::Defaults(), 2);
  Client* client = harness.Add(Ask(Prompt(30), 8));
  harness.Launch();
  harness.Launch();
  harness.scheduler.End(client->sequence.get(), FinishReason::kCancelled, harness.now);
  EXPECT_EQ(client->reason(), FinishReason::kCancelled);
  EXPECT_EQ(client->sequence->state, SequenceState::kRetiring);
  EXPECT_EQ(harness.scheduler.num_pages_used(), 8);
  harness.Collect();
  EXPECT_EQ(harness.scheduler.num_pages_used(), 8);
  harness.Collect();
  EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
  EXPECT_EQ(client->sequence->state, SequenceState::kFinished);
  EXPECT_TRUE(client->sink->tokens.empty());
}

TEST(Ending, SecondEndIsIgnored) {
  SchedulerHarness harness;
  Client* client = harness.Add(Ask(Prompt(5), 2));
  harness.StepUntilIdle();
  harness.scheduler.End(client->sequence.get(), FinishReason::kCancelled, harness.now);
  EXPECT_EQ(client->reason(), FinishReason::kLength);
}

TEST(Ending, StopStringOfTheEdgeEndsAsStop) {
  SchedulerHarness harness;
  Client* client = harness.Add(Ask(Prompt(5), 8));
  harness.Step();
  harness.scheduler.End(client->sequence.get(), FinishReason::kStop, harness.now);
  EXPECT_EQ(client->reason(), FinishReason::kStop);
  EXPECT_FALSE(client->info().stop_token_id.has_value());
  EXPECT_EQ(client->info().completion_tokens, 1);
}

TEST(Ending, DeadlineInTheQueueEndsBeforeAnythingIsComputed) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 1;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(5), 20));
  Request request = Ask(Prompt(5, 10), 2);
  request.deadline = 5;
  Client* late = harness.Add(request);
  while (!late->ended()) ASSERT_TRUE(harness.Step());
  EXPECT_EQ(late->reason(), FinishReason::kDeadline);
  EXPECT_EQ(late->info().finished, 5);
  EXPECT_EQ(late->info().first_scheduled, 0);
}

TEST(Ending, DeadlineInPrefillAndInDecodeFreesThePages) {
  for (const TimeNs deadline : {3, 6}) {
    SchedulerHarness harness;
    Request request = Ask(Prompt(40), 20);
    request.deadline = deadline;
    Client* client = harness.Add(request);
    harness.StepUntilIdle();
    EXPECT_EQ(client->reason(), FinishReason::kDeadline);
    EXPECT_EQ(client->sink->tokens.empty(), deadline == 3);
    EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
  }
}

TEST(Ending, DeadlineThatPassesInTheLastStepIsNotReportedAsLength) {
  SchedulerHarness harness;
  Request request = Ask(Prompt(5), 1);
  request.deadline = 3;
  Client* client = harness.Add(request);
  harness.now = 2;
  harness.Launch();
  harness.now = 3;
  harness.Collect();
  EXPECT_EQ(client->reason(), FinishReason::kDeadline);
  EXPECT_TRUE(client->sink->tokens.empty());
}

TEST(Ending, EndAllEndsWaitingRunningAndLostWork) {
  SchedulerHarness harness;
  std::vector<Client*> clients;
  for (int i = 0; i < 8; ++i) clients.push_back(harness.Add(Ask(Prompt(5, i + 1), 8)));
  harness.Launch();
  harness.scheduler.EndAll(FinishReason::kInternal, harness.now, true);
  for (const Client* client : clients) EXPECT_EQ(client->reason(), FinishReason::kInternal);
  EXPECT_TRUE(harness.scheduler.empty());
  EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
  EXPECT_EQ(harness.scheduler.retired().size(), 8U);
}

}  // namespace
}  // namespace dunlin::engine
