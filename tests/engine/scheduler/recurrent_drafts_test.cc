// SPDX-License-Identifier: Apache-2.0
// Guesses of a recurrent model's tokens: every one has a state of its own, so that the sequence goes on from the last
// that counts. The fake runtime checks that a step finds the state of exactly the tokens before it.
#include "tests/engine/scheduler/known_answer.h"
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

SchedulerOptions SlotsAndDrafts(int32_t num_slots, int32_t num_pages = 64) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_state_slots = num_slots;
  options.cache.num_pages = num_pages;
  options.adapt_drafts = false;
  return options;
}

TEST(RecurrentDrafts, CountUpToTheFirstWrongOne) {
  SchedulerHarness harness(SlotsAndDrafts(12));
  Client* client = AddGuessed(&harness, Ask(Prompt(5), 30), 4, nullptr, {3, 9});
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.plan.state_cuts.size(), 4U) << "in front of each guess";
  EXPECT_EQ(client->sink->tokens.size(), 4U) << "two of four, and the draw in place of the third";
  EXPECT_EQ(client->sequence->num_computed, 8);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(client->info().drafted_tokens - client->info().accepted_tokens, 2 + 4);
  EXPECT_EQ(harness.scheduler.pages().states().num_free(), 12);
}

// A state, one that is kept for the cache and one for each guess.
TEST(RecurrentDrafts, AreNoMoreThanThereAreSlotsFor) {
  for (const int32_t num_slots : {1, 2, 3, 5}) {
    SchedulerHarness harness(SlotsAndDrafts(num_slots));
    Client* client = AddGuessed(&harness, Ask(Prompt(5), 12), 8);
    ASSERT_TRUE(harness.Step());
    ASSERT_TRUE(harness.Step());
    EXPECT_EQ(harness.Planned(client), 1 + std::max(0, num_slots - 2));
    harness.StepUntilIdle();
    SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

TEST(RecurrentDrafts, LeaveSlotsToSequencesThatWait) {
  SchedulerHarness harness(SlotsAndDrafts(6), /*depth=*/2);
  Client* first = AddGuessed(&harness, Ask(Prompt(5), 40), 8);
  for (int i = 0; i < 4; ++i) ASSERT_TRUE(harness.Step());
  std::vector<Client*> others;
  for (TokenId i = 1; i <= 3; ++i) others.push_back(AddGuessed(&harness, Ask(Prompt(3, 10 * i), 6), 8));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(harness.Step());
  for (const Client* other : others) EXPECT_NE(other->sequence->state, SequenceState::kWaiting);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*first);
  for (const Client* other : others) SchedulerHarness::ExpectAnswerAsAlone(*other);
}

// Pages of 4 tokens: a guess passes the end of one in the middle of a step, and its state is kept all the same.
TEST(RecurrentDrafts, LeaveTheStateAtTheLastWholePageOfAnOutput) {
  for (const int32_t max_drafts : {1, 3, 8}) {
    SchedulerHarness harness(SlotsAndDrafts(16));
    Client* first = AddGuessed(&harness, Ask(Prompt(10), 20), max_drafts, nullptr, {7, 13});
    harness.StepUntilIdle();
    SchedulerHarness::ExpectAnswerAsAlone(*first);
    EXPECT_GT(first->info().accepted_tokens, 7);
    std::vector<TokenId> history = first->request.prompt;
    history.insert(history.end(), first->sink->tokens.begin(), first->sink->tokens.end());
    history.push_back(7);
    Client* next = harness.Add(Ask(history, 3));
    harness.StepUntilIdle();
    EXPECT_EQ(next->info().cached_tokens, 28) << "of 29 tokens with keys and values";
    SchedulerHarness::ExpectAnswerAsAlone(*next);
  }
}

// What rejected guesses have left in a state is found by nobody.
TEST(RecurrentDrafts, ThatAreWrongLeaveNothingBehind) {
  SchedulerHarness harness(SlotsAndDrafts(12));
  KnownAnswer* drafter = nullptr;
  Client* first = AddGuessed(&harness, Ask(Prompt(6), 20), 8, &drafter);
  drafter->all_wrong = true;
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*first);
  EXPECT_GT(first->info().drafted_tokens, 40);
  Request second = first->request;
  second.prompt.insert(second.prompt.end(), first->sink->tokens.begin(), first->sink->tokens.end());
  Client* again = AddGuessed(&harness, second, 0);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*again);
  EXPECT_EQ(again->info().cached_tokens, 24);
}

TEST(RecurrentDrafts, SurvivePreemptionAndTwoStepsInFlight) {
  for (const int32_t depth : {1, 2}) {
    SchedulerHarness harness(SlotsAndDrafts(20, 12), depth);
    std::vector<Client*> clients;
    for (int i = 0; i < 4; ++i) {
      clients.push_back(AddGuessed(&harness, Ask(Prompt(6, 5 + i), 25), 8, nullptr, {4, 7, 8, 15}));
    }
    harness.StepUntilIdle();
    EXPECT_GT(harness.scheduler.counters().preemptions, 0U);
    EXPECT_GT(harness.scheduler.counters().accepted_tokens, 0U);
    for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

// With two steps in flight the first chunk of a prompt is committed while the last token and guesses are computed.
TEST(RecurrentDrafts, OutliveTheCommitOfAnEarlierChunk) {
  SchedulerOptions options = SlotsAndDrafts(12);
  options.max_tokens_per_step = 8;
  SchedulerHarness harness(options, /*depth=*/2);
  Client* client = AddGuessed(&harness, Ask(Prompt(9), 20), 4);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_GT(client->info().accepted_tokens, 10);
}

// Its slots are given back when the step that writes them is committed.
TEST(RecurrentDrafts, OfACancelledSequenceAreGivenBackWithItsStep) {
  SchedulerHarness harness(SlotsAndDrafts(8), /*depth=*/2);
  Client* client = AddGuessed(&harness, Ask(Prompt(5), 30), 4);
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Step());
  harness.Launch();
  ASSERT_EQ(harness.Planned(client), 5);
  harness.scheduler.End(client->sequence.get(), FinishReason::kCancelled, harness.now);
  EXPECT_EQ(harness.scheduler.pages().states().num_free(), 8 - 5);
  harness.StepUntilIdle();
  EXPECT_EQ(harness.scheduler.pages().states().num_free(), 8);
}

}  // namespace
}  // namespace dunlin::engine
