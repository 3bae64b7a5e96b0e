// SPDX-License-Identifier: Apache-2.0
// What has not begun, held against its deadline: steps take 1 ms and 1 ms for each sequence in them.
#include <gtest/gtest.h>

#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

constexpr TimeNs kMs = 1'000'000;

class DeadlineStartTest : public testing::Test {
 protected:
  static SchedulerOptions Options() {
    SchedulerOptions options = SchedulerHarness::Defaults();
    options.max_sequences = 32;
    options.max_tokens_per_step = 256;
    options.max_live = 200;
    options.cache.num_pages = 2000;
    return options;
  }

  Client* Add(int32_t max_tokens, TimeNs time_limit, int32_t priority = 0, TenantId tenant = kSharedTenant) {
    Request request = Ask(Prompt(4), max_tokens);
    request.priority = priority;
    request.tenant = tenant;
    request.arrival = harness_.now;
    if (time_limit > 0) request.deadline = harness_.now + time_limit;
    return harness_.Add(std::move(request));
  }
  void Step() {
    harness_.Launch();
    if (harness_.plan.empty()) return;
    harness_.now += kMs * static_cast<TimeNs>(1 + harness_.plan.sequences.size());
    harness_.Collect();
  }
  // Batches of 1 to 20 have been seen.
  void Learn() {
    for (int i = 0; i < 20; ++i) {
      Add(40 + i, 0);
      Step();
    }
    while (!harness_.scheduler.empty()) Step();
  }
  bool Runs(const Client* client) const { return client->sequence->state == SequenceState::kRunning; }

  static bool WasDropped(const Client* client) {
    if (!client->ended()) return false;
    const FinishInfo& info = client->info();
    return info.reason == FinishReason::kDeadline && info.first_scheduled == 0 &&
           info.finished < client->request.deadline;
  }

  SchedulerHarness harness_{Options()};
};

TEST_F(DeadlineStartTest, ASequenceBeginsOnlyIntoABatchThatItsDeadlineAllows) {
  Learn();
  // 20 tokens in 210 ms: ten at once, with their margin of a tenth eight.
  std::vector<Client*> clients;
  for (int i = 0; i < 20; ++i) clients.push_back(Add(20, 210 * kMs));
  Step();
  const auto running = static_cast<int32_t>(harness_.scheduler.running().size());
  EXPECT_GE(running, 7);
  EXPECT_LE(running, 9);
  EXPECT_EQ(harness_.scheduler.waiting().size(), clients.size() - static_cast<size_t>(running));
  while (!harness_.scheduler.empty()) Step();
  int complete = 0;
  for (const Client* client : clients) {
    if (client->reason() == FinishReason::kLength) {
      ++complete;
    } else {
      EXPECT_TRUE(WasDropped(client));
      EXPECT_TRUE(client->sink->tokens.empty());
    }
  }
  EXPECT_EQ(complete, running) << "all that began";
}

TEST_F(DeadlineStartTest, WhatDoesNotFitIsEndedOnceAnotherOneCanBegin) {
  Learn();
  Add(100, 0);
  Step();
  const Client* hopeless = Add(100, 50 * kMs);
  Step();
  EXPECT_EQ(hopeless->sequence->state, SequenceState::kWaiting);
  const Client* other = Add(5, 50 * kMs);
  Step();
  EXPECT_TRUE(WasDropped(hopeless));
  EXPECT_TRUE(Runs(other));
}

TEST_F(DeadlineStartTest, OnAnIdleEngineEvenThatBegins) {
  Learn();
  const Client* hopeless = Add(100, 50 * kMs);
  Step();
  EXPECT_TRUE(Runs(hopeless));
}

TEST_F(DeadlineStartTest, WhatASmallerBatchAllowsWaitsForIt) {
  Learn();
  for (int i = 0; i < 15; ++i) Add(5, 0);
  Step();
  const Client* patient = Add(60, 400 * kMs);  // 60 steps of 16 sequences take a second, alone 120 ms
  Step();
  EXPECT_EQ(patient->sequence->state, SequenceState::kWaiting);
  while (!harness_.scheduler.empty()) Step();
  EXPECT_EQ(patient->reason(), FinishReason::kLength);
}

TEST_F(DeadlineStartTest, WithoutADeadlineNothingWaitsForASmallerBatch) {
  Learn();
  for (int i = 0; i < 15; ++i) Add(5, 0);
  Step();
  const Client* endless = Add(60, 0);
  Step();
  EXPECT_TRUE(Runs(endless));
}

// 20 tokens in 150 ms: six at once.
TEST_F(DeadlineStartTest, WhatRunsIsNotMadeLateByWhatHasMoreTime) {
  Learn();
  Add(5, 0);
  Step();
  const Client* tight = Add(20, 150 * kMs);
  Step();
  ASSERT_TRUE(Runs(tight));
  std::vector<Client*> patient;
  for (int i = 0; i < 15; ++i) patient.push_back(Add(20, 2000 * kMs));
  Step();
  const size_t beside = harness_.scheduler.running().size();
  EXPECT_GE(beside, 4U);
  EXPECT_LE(beside, 8U);
  while (!harness_.scheduler.empty()) Step();
  EXPECT_EQ(tight->reason(), FinishReason::kLength);
  for (const Client* client : patient) EXPECT_EQ(client->reason(), FinishReason::kLength);
}

TEST_F(DeadlineStartTest, NeitherByWhatHasNoDeadline) {
  Learn();
  Add(5, 0);
  Step();
  const Client* tight = Add(20, 150 * kMs);
  Step();
  for (int i = 0; i < 15; ++i) Add(20, 0);
  while (!harness_.scheduler.empty()) Step();
  EXPECT_EQ(tight->reason(), FinishReason::kLength);
}

TEST_F(DeadlineStartTest, WhatCannotBeSavedHoldsNobodyUp) {
  Learn();
  const Client* hopeless = Add(100, 150 * kMs);
  Step();
  ASSERT_TRUE(Runs(hopeless));
  for (int i = 0; i < 15; ++i) Add(20, 2000 * kMs);
  Step();
  EXPECT_EQ(harness_.scheduler.running().size(), 16U);
}

TEST_F(DeadlineStartTest, AHigherPriorityDoesNotWaitForADeadline) {
  Learn();
  Add(20, 150 * kMs);
  Step();
  for (int i = 0; i < 15; ++i) {
    Client* urgent = Add(20, 2000 * kMs, 1);
    Step();
    EXPECT_TRUE(Runs(urgent)) << i;
  }
}

// A tenant that has one place waits for nobody that has many.
TEST_F(DeadlineStartTest, ATenantWithFewDoesNotWaitForOneWithMany) {
  Learn();
  for (int i = 0; i < 8; ++i) Add(20, 0);
  for (int i = 0; i < 4; ++i) Add(20, 260 * kMs);
  Step();
  const Client* light = Add(20, 2000 * kMs, 0, 7);
  Step();
  EXPECT_TRUE(Runs(light));
}

TEST_F(DeadlineStartTest, WhatHasBegunGoesOnUntilItsDeadline) {
  Learn();
  const Client* begun = Add(100, 50 * kMs);
  Step();
  for (int i = 0; i < 10; ++i) Add(10, kMs * 1000);
  while (!harness_.scheduler.empty()) Step();
  EXPECT_EQ(begun->reason(), FinishReason::kDeadline);
}

}  // namespace
}  // namespace dunlin::engine
