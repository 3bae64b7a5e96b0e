// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

// The tokens that a request draws when nothing stops it.
std::vector<TokenId> FreeRun(Request request) {
  request.stopping = {};
  request.stopping.ignore_eos = true;
  request.stopping.max_tokens = 30;
  return simulation::RunAlone(request, {kEos}, {.vocab_size = 50}).tokens;
}

// A prompt whose third drawn token is `token` for the first time.
Request ThatDrawsThird(TokenId token) {
  for (uint64_t seed = 0;; ++seed) {
    Request request = Ask(Prompt(3), 30);
    request.sampling.seed = seed;
    const std::vector<TokenId> tokens = FreeRun(request);
    if (tokens[2] == token && tokens[0] != token && tokens[1] != token) return request;
  }
}

TEST(Commit, StopsAtEndOfSequenceAndNamesTheToken) {
  SchedulerHarness harness;
  Request request = ThatDrawsThird(kEos);
  request.stopping.ignore_eos = false;
  Client* client = harness.Add(request);
  harness.StepUntilIdle();
  EXPECT_EQ(client->reason(), FinishReason::kStop);
  EXPECT_EQ(client->info().stop_token_id, kEos);
  EXPECT_EQ(client->info().completion_tokens, 3);
  EXPECT_EQ(client->sink->tokens.back(), kEos);
}

TEST(Commit, TellsEverySinkThatRunsOnThatTheStepHasEnded) {
  SchedulerHarness harness;
  Request scored = Ask(Prompt(6), 5);
  scored.sampling.prompt_logprobs = 0;
  const Client* first = harness.Add(scored);
  const Client* second = harness.Add(Ask(Prompt(3), 9));
  size_t steps = 0;
  for (; !second->ended() && steps < 100; ++steps) {
    harness.Step();
    for (const Client* client : {first, second}) {
      if (client->ended()) continue;
      EXPECT_EQ(client->sink->ended_tokens, client->sink->tokens.size());
      EXPECT_EQ(client->sink->ended_scores, client->sink->scores.size());
    }
  }
  EXPECT_GE(steps, 9U);
  EXPECT_EQ(first->sink->scores.size(), 5U);
  EXPECT_FALSE(first->sink->late || second->sink->late) << "the step's end came after the output's";
  EXPECT_EQ(first->sink->ended_tokens, 4U) << "the last token came with the end";
}

TEST(Commit, GoesPastEndOfSequenceWhenAskedTo) {
  SchedulerHarness harness;
  Client* client = harness.Add(ThatDrawsThird(kEos));
  harness.StepUntilIdle();
  EXPECT_EQ(client->reason(), FinishReason::kLength);
  EXPECT_EQ(client->info().completion_tokens, 30);
  EXPECT_FALSE(client->info().stop_token_id.has_value());
}

TEST(Commit, StopsAtAStopTokenEvenWhenEndOfSequenceIsIgnored) {
  SchedulerHarness harness;
  Request request = ThatDrawsThird(17);
  request.stopping.stop_token_ids = {48, 17};
  Client* client = harness.Add(request);
  harness.StepUntilIdle();
  EXPECT_EQ(client->reason(), FinishReason::kStop);
  EXPECT_EQ(client->info().stop_token_id, 17);
}

TEST(Commit, DoesNotStopBeforeMinTokens) {
  SchedulerHarness harness;
  Request request = ThatDrawsThird(17);
  request.stopping.stop_token_ids = {17};
  request.stopping.min_tokens = 2;
  Client* third = harness.Add(request);
  request.stopping.min_tokens = 3;
  Client* later = harness.Add(request);
  harness.StepUntilIdle();
  EXPECT_EQ(third->info().completion_tokens, 3);
  EXPECT_GT(later->info().completion_tokens, 3);
  SchedulerHarness::ExpectAnswerAsAlone(*later);
}

TEST(Commit, EndsAtMaxTokensAndGivesBackAllPages) {
  SchedulerHarness harness;
  Client* client = harness.Add(Ask(Prompt(9), 4));
  harness.StepUntilIdle();
  EXPECT_EQ(client->reason(), FinishReason::kLength);
  EXPECT_EQ(client->info().prompt_tokens, 9);
  EXPECT_EQ(client->info().completion_tokens, 4);
  EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
  EXPECT_EQ(client->sequence->state, SequenceState::kFinished);
  ASSERT_EQ(harness.scheduler.retired().size(), 1U);
  EXPECT_EQ(harness.scheduler.retired()[0], client->sequence.get());
}

TEST(Commit, ReportsWhenThingsHappened) {
  SchedulerHarness harness;
  Request request = Ask(Prompt(20), 3);
  request.arrival = 1;
  Client* client = harness.Add(request);
  harness.StepUntilIdle();
  EXPECT_EQ(client->info().arrival, 1);
  EXPECT_EQ(client->info().first_scheduled, 2);
  EXPECT_EQ(client->info().first_token, 3);
  EXPECT_EQ(client->info().finished, 5);
}

TEST(Commit, EndsOnlyTheRequestWhoseRowHoldsNan) {
  SchedulerHarness harness;
  Client* before = harness.Add(Ask(Prompt(5), 8));
  Request poisoned = Ask(Prompt(5, 10), 8);
  poisoned.sampling.seed = simulation::kPoison | 6;  // the second token it feeds back
  Client* bad = harness.Add(poisoned);
  Client* after = harness.Add(Ask(Prompt(5, 20), 8));
  harness.StepUntilIdle();
  EXPECT_EQ(bad->reason(), FinishReason::kNumerical);
  EXPECT_EQ(bad->info().completion_tokens, 2);
  SchedulerHarness::ExpectAnswerAsAlone(*before);
  SchedulerHarness::ExpectAnswerAsAlone(*after);
  EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
}

TEST(Commit, EndsARequestWhoseSinkIsFull) {
  SchedulerHarness harness;
  Client* slow = harness.Add(Ask(Prompt(5), 8), 3);
  Client* other = harness.Add(Ask(Prompt(5, 10), 8));
  harness.StepUntilIdle();
  EXPECT_EQ(slow->reason(), FinishReason::kSlowReader);
  EXPECT_EQ(slow->sink->tokens.size(), 3U);
  SchedulerHarness::ExpectAnswerAsAlone(*other);
}

TEST(Commit, DeliversPromptScoresInOrderAndBeforeTheFirstToken) {
  SchedulerHarness harness;
  Request scored = Ask(Prompt(37), 2);
  scored.sampling.prompt_logprobs = 2;
  harness.Add(Ask(Prompt(3, 40), 8));
  Client* client = harness.Add(scored);
  harness.StepUntilIdle();
  EXPECT_EQ(client->sink->scores.size(), 36U);
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

}  // namespace
}  // namespace dunlin::engine
