// SPDX-License-Identifier: Apache-2.0
// The slots of recurrent models: one for each sequence that runs, given back at its end, and those whose states the
// prefix cache keeps. The fake runtime checks that a step finds the state of exactly the tokens before it.
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

SchedulerOptions WithSlots(int32_t num_slots, int32_t num_pages = 64) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_state_slots = num_slots;
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

// Pages of 4 tokens: the last state of a prompt of 30 is at 28, of one of 33 at 32, of one of 32 at 28.
TEST(StateSlots, APromptIsFoundUpToItsLastWholePage) {
  for (const int32_t length : {30, 32, 33}) {
    SchedulerHarness harness(WithSlots(4));
    for (int i = 0; i < 3; ++i) {
      Client* client = harness.Add(Ask(Prompt(length), 1));
      harness.StepUntilIdle();
      EXPECT_EQ(client->info().cached_tokens, i == 0 ? 0 : (length - 1) / 4 * 4);
      SchedulerHarness::ExpectAnswerAsAlone(*client);
    }
    EXPECT_EQ(harness.scheduler.pages().states().num_free(), 4) << "kept ones are free";
  }
}

TEST(StateSlots, ThePromptIsOneStepThoughAStateIsKeptInside) {
  SchedulerHarness harness(WithSlots(4));
  Client* client = harness.Add(Ask(Prompt(15), 1));
  EXPECT_TRUE(harness.Step());
  EXPECT_EQ(harness.plan.sequences.at(0).num_tokens, 15);
  ASSERT_EQ(harness.plan.state_cuts.size(), 1U);
  EXPECT_EQ(harness.plan.state_cuts[0].position, 12);
  EXPECT_TRUE(client->ended());
}

TEST(StateSlots, AnOutputIsFoundUpToItsLastWholePage) {
  SchedulerHarness harness(WithSlots(4));
  Client* first = harness.Add(Ask(Prompt(10), 20));
  harness.StepUntilIdle();
  EXPECT_EQ(harness.scheduler.pages().cache().states().num_kept(), 2) << "of the prompt, and the last of the output";
  std::vector<TokenId> history = first->request.prompt;
  history.insert(history.end(), first->sink->tokens.begin(), first->sink->tokens.end());
  history.push_back(7);
  Client* next = harness.Add(Ask(history, 3));
  harness.StepUntilIdle();
  EXPECT_EQ(next->info().cached_tokens, 28) << "of 29 tokens with keys and values";
  SchedulerHarness::ExpectAnswerAsAlone(*next);
}

TEST(StateSlots, OutputsOfAPromptCopyItsState) {
  SchedulerHarness harness(WithSlots(6));
  std::vector<Client*> clients;
  for (int32_t output = 0; output < 3; ++output) {
    Request request = Ask(Prompt(61), 9);
    request.output_index = output;
    clients.push_back(harness.Add(std::move(request)));
  }
  harness.StepUntilIdle();
  EXPECT_EQ(clients[0]->info().cached_tokens, 0);
  EXPECT_EQ(clients[1]->info().cached_tokens, 60) << "it waited for the first one's state";
  EXPECT_EQ(clients[2]->info().cached_tokens, 60);
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

// Two prompts with 80 tokens in common: the second leaves a state where it leaves the first, which a third one finds.
TEST(StateSlots, AStateIsKeptWhereAPromptLeavesACachedOne) {
  SchedulerHarness harness(WithSlots(8, 128));
  const std::vector<TokenId> common = Prompt(80);
  std::vector<int32_t> cached;
  for (const TokenId own : {11, 12, 13}) {
    std::vector<TokenId> prompt = common;
    prompt.insert(prompt.end(), 20, own);
    Client* client = harness.Add(Ask(prompt, 2));
    harness.StepUntilIdle();
    cached.push_back(client->info().cached_tokens);
    SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
  EXPECT_EQ(cached, (std::vector<int32_t>{0, 0, 80}));
}

TEST(StateSlots, APreemptedSequenceGoesOnFromItsLastState) {
  SchedulerHarness harness(WithSlots(6, 12));
  Client* older = harness.Add(Ask(Prompt(9), 24));
  Client* newer = harness.Add(Ask(Prompt(9, 20), 24));
  while (newer->info().preemptions == 0 && newer->sequence->info.preemptions == 0) ASSERT_TRUE(harness.Step());
  const int32_t known = newer->sequence->num_tokens();
  while (newer->sequence->state == SequenceState::kWaiting) ASSERT_TRUE(harness.Step());
  EXPECT_GE(harness.plan.sequences.back().first_position, 8) << known;
  harness.StepUntilIdle();
  for (const Client* client : {older, newer}) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

// Along a long prompt: near its end closely, before that at ever wider distances.
TEST(StateSlots, StatesOfALongPromptAreThinned) {
  SchedulerOptions options = WithSlots(40, 128);
  options.state_borders.interval = 16;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(16 * 20 + 2), 1));
  harness.StepUntilIdle();
  const int32_t kept = harness.scheduler.pages().cache().states().num_kept();
  EXPECT_GE(kept, 6);
  EXPECT_LE(kept, 12);
  std::vector<TokenId> prompt = Prompt(16 * 8 + 9);
  Client* client = harness.Add(Ask(prompt, 1));
  harness.StepUntilIdle();
  EXPECT_EQ(client->info().cached_tokens, 16 * 8);
}

// A state leaves with its page set, and a page set stays without its state.
TEST(StateSlots, StatesAreEvictedLeastRecentlyUsedFirst) {
  SchedulerHarness harness(WithSlots(3, 128));
  const auto cached = [&harness](TokenId first) {
    Client* client = harness.Add(Ask(Prompt(30, first), 1));
    harness.StepUntilIdle();
    SchedulerHarness::ExpectAnswerAsAlone(*client);
    return client->info().cached_tokens;
  };
  for (const TokenId first : {1, 10}) EXPECT_EQ(cached(first), 0);
  EXPECT_EQ(cached(1), 28);
  EXPECT_EQ(cached(20), 0) << "takes the slot of the second one";
  EXPECT_EQ(cached(1), 28);
  EXPECT_EQ(cached(10), 0);
}

// With two steps in flight the other prompt always has one: its next state is many steps away.
TEST(StateSlots, AMoreUrgentRequestWaitsForNoStateOfAnother) {
  SchedulerOptions options = WithSlots(8, 128);
  options.step_overhead_tokens = 1;
  SchedulerHarness harness(options, /*depth=*/2);
  Client* leader = harness.Add(Ask(Prompt(200), 1));
  for (int i = 0; i < 3; ++i) harness.Step();
  Request request = Ask(Prompt(200), 1);
  request.priority = 1;
  Client* urgent = harness.Add(request);
  for (int waited = 0; !urgent->ended() && waited <= 3;) {
    const int32_t before = urgent->sequence->next_position();
    harness.Step();
    waited = urgent->sequence->next_position() > before ? 0 : waited + 1;
  }
  EXPECT_TRUE(urgent->ended());
  EXPECT_FALSE(leader->ended());
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*urgent);
  SchedulerHarness::ExpectAnswerAsAlone(*leader);
}

TEST(StateSlots, DecodedStatesAreNotKeptWhereDecodeHasBitsOfItsOwn) {
  SchedulerOptions options = WithSlots(4);
  options.prefill_matches_decode = false;
  SchedulerHarness harness(options);
  Client* first = harness.Add(Ask(Prompt(10), 20));
  harness.StepUntilIdle();
  std::vector<TokenId> history = first->request.prompt;
  history.insert(history.end(), first->sink->tokens.begin(), first->sink->tokens.end());
  Client* next = harness.Add(Ask(history, 3));
  harness.StepUntilIdle();
  EXPECT_EQ(next->info().cached_tokens, 8);
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
  pool.Release(first, false);
  EXPECT_FALSE(pool.CheckIntegrity({first, second}).ok()) << "free and held";
  EXPECT_EQ(pool.Allocate(), first);
}

}  // namespace
}  // namespace dunlin::engine
