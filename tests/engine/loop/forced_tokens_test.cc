// SPDX-License-Identifier: Apache-2.0
// Tokens that a constraint forces are appended without a draw of their own: fewer steps, the same output.
#include <gmock/gmock.h>

#include <limits>

#include "engine/loop/engine.h"
#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/scripted_constraint.h"
#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

using simulation::Dice;
using simulation::Place;
using simulation::ScriptedConstraint;

// A choice of two, `length` forced tokens, and so on.
std::shared_ptr<ScriptedConstraint> ChoiceThenForced(size_t length) {
  std::vector<Place> places(1 + length);
  places[0].allowed = {1, 2};
  for (size_t i = 1; i <= length; ++i) places[i].allowed = {static_cast<TokenId>(10 + i)};
  return std::make_shared<ScriptedConstraint>(places, std::vector<TokenId>{kEos},
                                              [length](size_t place, TokenId) { return (place + 1) % (1 + length); });
}

Request AskForced(size_t length, int32_t max_tokens) {
  Request request = Ask(Prompt(3), max_tokens);
  request.constraint = ChoiceThenForced(length);
  return request;
}

TEST(ForcedTokens, AreAppendedBehindTheDrawnOneAndComputedTogether) {
  SchedulerHarness harness;
  harness.max_forced_tokens = 8;
  Client* client = harness.Add(AskForced(3, 20));
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(client->sink->tokens.size(), 1U);  // the choice
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.Planned(client), 1);
  EXPECT_EQ(client->sink->tokens.size(), 4U);  // the first forced one is drawn, two follow it
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.Planned(client), 3);
  EXPECT_EQ(harness.plan.sub_batches[0].num_decode_tokens, 3);
  EXPECT_EQ(client->sink->tokens.size(), 5U);  // the next choice
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(ForcedTokens, EndInTheMiddleOfARunAtMaxTokensAndForASlowReader) {
  SchedulerHarness harness;
  harness.max_forced_tokens = 8;
  const Client* shortened = harness.Add(AskForced(7, 5));
  const Client* slow = harness.Add(AskForced(7, 20), 4);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*shortened);
  EXPECT_EQ(shortened->sink->tokens.size(), 5U);
  EXPECT_EQ(slow->reason(), FinishReason::kSlowReader);
  EXPECT_EQ(slow->sink->tokens.size(), 4U);
  EXPECT_EQ(slow->info().completion_tokens, 5);
}

TEST(ForcedTokens, OfARequestForLogprobsAreDrawn) {
  SchedulerHarness harness;
  harness.max_forced_tokens = 8;
  Request request = AskForced(7, 20);
  request.sampling.logprobs = 0;
  Client* client = harness.Add(request);
  for (size_t tokens = 1; tokens <= 20; ++tokens) {
    ASSERT_TRUE(harness.Step());
    EXPECT_EQ(client->sink->tokens.size(), tokens);
  }
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

// Long runs take no decode's token, and no more than a quarter of the step beyond those.
TEST(ForcedTokens, LeaveEveryDecodeItsToken) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 8;
  options.cache.num_pages = 300;
  SchedulerHarness harness(options);
  harness.max_forced_tokens = 12;
  std::vector<Client*> clients;
  for (int i = 0; i < 4; ++i) clients.push_back(harness.Add(AskForced(12, 120)));
  for (int i = 0; i < 4; ++i) clients.push_back(harness.Add(Ask(Prompt(1, 5 + i), 120)));
  while (std::any_of(clients.begin(), clients.end(), [](const Client* c) { return c->sink->tokens.empty(); })) {
    ASSERT_TRUE(harness.Step());
  }
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(harness.Step());
    EXPECT_EQ(harness.plan.sequences.size(), clients.size());
    EXPECT_LE(harness.plan.num_tokens, static_cast<int32_t>(clients.size()) + options.max_tokens_per_step / 4);
  }
  harness.StepUntilIdle();
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

// A prompt beside runs gets its share, and a preempted sequence accepts no token twice.
TEST(ForcedTokens, SurvivePreemption) {
  for (const int32_t max_forced : {0, 3, 8}) {
    SchedulerOptions options = SchedulerHarness::Defaults();
    options.cache.num_pages = 9;
    SchedulerHarness harness(options);
    harness.max_forced_tokens = max_forced;
    const auto constraint = ChoiceThenForced(5);
    int64_t to_accept = 0;
    std::vector<Client*> clients;
    for (int i = 0; i < 3; ++i) {
      Request request = Ask(Prompt(6, 5 + i), 25);
      request.constraint = constraint;
      clients.push_back(harness.Add(request));
      to_accept += 24;  // all but the last
    }
    harness.StepUntilIdle();
    EXPECT_GT(harness.scheduler.counters().preemptions, 0U);
    if (max_forced == 0) {
      EXPECT_EQ(constraint->num_accepted(), to_accept);
    }
    for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

// Random constraints, requests, batches, chunks and depths, each with and without forced tokens.
TEST(ForcedTokens, ChangeNoOutput) {
  int64_t steps[2] = {0, 0};
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    for (const bool forced : {false, true}) {
      Dice dice(seed);
      SchedulerOptions options = SchedulerHarness::Defaults();
      options.max_tokens_per_step = dice.Between(1, 40);
      options.max_sequences = dice.Between(1, 8);
      options.cache.num_pages = dice.Between(12, 60);
      SchedulerHarness harness(options, dice.Between(1, 2));
      const int32_t most = dice.Between(1, 20);
      harness.max_forced_tokens = forced ? most : 0;
      std::vector<Client*> clients;
      for (int i = dice.Between(1, 8); i > 0; --i) {
        Request request = Ask(Prompt(dice.Between(1, 20), dice.Between(1, 5)), dice.Between(1, 28));
        request.sampling.seed = dice.Word() >> 1;
        request.stopping.min_tokens = dice.OneIn(3) ? dice.Between(0, 9) : 0;
        request.stopping.stop_token_ids = {dice.Between(1, 49)};
        if (!dice.OneIn(5)) request.constraint = simulation::AnyConstraint(&dice, SchedulerHarness::kVocabSize);
        clients.push_back(harness.Add(request));
      }
      while (harness.Step()) ++steps[forced ? 1 : 0];
      for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
      if (testing::Test::HasFailure()) FAIL() << "seed " << seed;
    }
  }
  EXPECT_LT(steps[1], steps[0]);
}

}  // namespace
}  // namespace dunlin::engine
