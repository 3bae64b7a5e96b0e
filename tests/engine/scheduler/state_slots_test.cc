// SPDX-License-Identifier: Apache-2.0
// The slots of recurrent models: one for each sequence that runs, never shared, given back at its end. The fake runtime
// checks that a step finds the state of exactly the tokens before it.
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

SchedulerOptions WithSlots(int32_t num_slots, int32_t num_pages = 64) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.num_state_slots = num_slots;
  options.cache.num_pages = num_pages;
  return options;
}

TEST(StateSlots, EverySequenceHasItsOwnAndGivesItBack) {
  SchedulerHarness harness(WithSlots(4));
  std::vector<Client*> clients;
  for (TokenId i = 1; i <= 9; ++i) clients.push_back(harness.Add(Ask(Prompt(3 + 2 * i, i), 5 + i)));
  harness.StepUntilIdle();
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(harness.scheduler.pages().states().num_free(), 4);
}

TEST(StateSlots, ASequenceWaitsWhileNoSlotIsFree) {
  SchedulerHarness harness(WithSlots(1));
  Client* first = harness.Add(Ask(Prompt(3), 6));
  Client* second = harness.Add(Ask(Prompt(3, 10), 2));
  while (!first->ended()) {
    EXPECT_TRUE(harness.Step());
    EXPECT_TRUE(first->ended() || harness.Planned(second) == 0);
  }
  EXPECT_EQ(second->sequence->state, SequenceState::kWaiting);
  EXPECT_EQ(second->info().preemptions, 0);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*second);
}

// A sequence that was cancelled while a step computes it keeps its slot until that step is committed.
TEST(StateSlots, ASlotIsNotGivenAwayWhileALaunchedStepWritesIt) {
  SchedulerHarness harness(WithSlots(1), /*depth=*/2);
  Client* cancelled = harness.Add(Ask(Prompt(40), 6));
  harness.Launch();
  Client* next = harness.Add(Ask(Prompt(3, 10), 2));
  harness.scheduler.End(cancelled->sequence.get(), FinishReason::kCancelled, harness.now);
  EXPECT_EQ(harness.scheduler.pages().states().num_free(), 0);
  harness.Launch();
  EXPECT_TRUE(harness.plan.empty()) << "no slot is free yet";
  harness.Collect();
  EXPECT_EQ(harness.scheduler.pages().states().num_free(), 1);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*next);
}

TEST(StateSlots, APreemptedSequenceBeginsAgainInAnySlot) {
  SchedulerHarness harness(WithSlots(3, 9));
  std::vector<Client*> clients;
  for (const TokenId first : {1, 10, 20}) clients.push_back(harness.Add(Ask(Prompt(3, first), 20)));
  harness.StepUntilIdle();
  EXPECT_GT(clients.back()->info().preemptions, 0);
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(StateSlots, PagesAreNotSharedBecauseNoneHasTheState) {
  SchedulerHarness harness(WithSlots(4));
  for (int i = 0; i < 3; ++i) {
    Client* client = harness.Add(Ask(Prompt(30), 3));
    harness.StepUntilIdle();
    EXPECT_EQ(client->info().cached_tokens, 0);
    SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
  // Nor while they are filled: each of several outputs of a prompt computes it.
  Client* one = harness.Add(Ask(Prompt(30), 3));
  Client* other = harness.Add(Ask(Prompt(30), 3));
  harness.StepUntilIdle();
  EXPECT_EQ(one->info().cached_tokens + other->info().cached_tokens, 0);
  EXPECT_EQ(harness.scheduler.counters().prompt_tokens_cached, 0U);
}

TEST(StatePool, RefusesWhatContradictsIt) {
  StatePool pool(2);
  const StateSlot first = pool.Allocate();
  const StateSlot second = pool.Allocate();
  EXPECT_NE(first, second);
  EXPECT_EQ(pool.Allocate(), kNoStateSlot);
  EXPECT_TRUE(pool.CheckIntegrity({first, second}).ok());
  EXPECT_FALSE(pool.CheckIntegrity({first}).ok()) << "lost";
  EXPECT_FALSE(pool.CheckIntegrity({first, first}).ok()) << "held twice";
  pool.Release(first);
  EXPECT_FALSE(pool.CheckIntegrity({first, second}).ok()) << "free and held";
  EXPECT_EQ(pool.Allocate(), first);
}

}  // namespace
}  // namespace dunlin::engine
