// SPDX-License-Identifier: Apache-2.0
// Prompts with rows: their ids stand for the rows wherever tokens are compared, and steps that compute them carry them.
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

// A prompt whose tokens in [first, end) are rows, named from `id` on.
Request AskRows(std::vector<TokenId> prompt, int32_t first, int32_t end, TokenId id, int32_t max_tokens) {
  auto rows = std::make_shared<PromptRows>();
  rows->spans = {{first, end - first}};
  rows->columns = 1;
  rows->values.resize(static_cast<size_t>(end - first));
  for (int32_t i = first; i < end; ++i) prompt[static_cast<size_t>(i)] = kFirstRowToken + id + i;
  Request request = Ask(std::move(prompt), max_tokens);
  request.rows = std::move(rows);
  return request;
}

TEST(PromptRowsInPlans, AreThoseOfTheRequestWhileItsPromptIsComputed) {
  SchedulerHarness harness;
  Client* client = harness.Add(AskRows(Prompt(20), 0, 20, 0, 3));
  int num_prompt_steps = 0;
  while (harness.Step()) {
    if (harness.plan.empty()) continue;
    const SequenceStep& step = harness.plan.sequences[0];
    const bool in_prompt = step.first_position < 20;
    num_prompt_steps += in_prompt ? 1 : 0;
    EXPECT_EQ(step.rows, in_prompt ? client->request.rows.get() : nullptr) << step.first_position;
  }
  EXPECT_EQ(num_prompt_steps, 2);
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(PromptRowsInPlans, AreComputedAgainAfterAPreemption) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_pages = 9;
  options.prefix_cache = false;
  SchedulerHarness harness(options);
  Client* old = harness.Add(Ask(Prompt(8), 24));
  Client* client = harness.Add(AskRows(Prompt(9, 20), 2, 6, 0, 20));
  bool preempted = false;
  bool computed_again = false;
  while (harness.Step()) {
    for (const SequenceStep& step : harness.plan.sequences) {
      if (step.request_id != client->sequence->id) continue;
      preempted = client->sequence->info.preemptions > 0;
      if (preempted && step.first_position < 9) computed_again |= step.rows == client->request.rows.get();
    }
  }
  EXPECT_TRUE(preempted);
  EXPECT_TRUE(computed_again);
  SchedulerHarness::ExpectAnswerAsAlone(*old);
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

// Sequences that have ended may wait for long to be destroyed; the memory of their images does not.
TEST(PromptRowsInPlans, LeaveWithTheSequenceThatHasEnded) {
  SchedulerHarness harness;
  Client* client = harness.Add(AskRows(Prompt(20), 0, 20, 0, 3));
  const std::weak_ptr<const PromptRows> rows = client->request.rows;
  client->request.rows = nullptr;
  EXPECT_FALSE(rows.expired());
  harness.StepUntilIdle();
  EXPECT_TRUE(rows.expired());
}

TEST(PromptRowsInPlans, EqualIdsShareAPrefixAndOthersDoNot) {
  SchedulerHarness harness;
  harness.Add(AskRows(Prompt(14), 5, 9, 0, 1));
  harness.StepUntilIdle();
  Client* same = harness.Add(AskRows(Prompt(14), 5, 9, 0, 3));
  Client* other = harness.Add(AskRows(Prompt(14), 5, 9, 100, 3));
  Client* plain = harness.Add(Ask(Prompt(14), 3));
  harness.StepUntilIdle();
  EXPECT_EQ(same->info().cached_tokens, 12);
  EXPECT_EQ(other->info().cached_tokens, 4);
  EXPECT_EQ(plain->info().cached_tokens, 4);
  for (const Client* client : {same, other, plain}) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

// No token is counted before the first one is drawn.
TEST(PromptRowsInPlans, WithPenaltiesWaitForTheFirstTokenEvenIfAllOfThePromptIsRows) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.plan_ahead = true;
  SchedulerHarness harness(options, /*depth=*/2);
  Request request = AskRows(Prompt(6), 0, 6, 0, 5);
  Client* goes_on = harness.Add(request);
  harness.Launch();
  EXPECT_TRUE(harness.scheduler.CanPlan());
  harness.StepUntilIdle();
  request.sampling.presence_penalty = 0.5F;
  Client* waits = harness.Add(request);
  harness.Launch();
  EXPECT_FALSE(harness.scheduler.CanPlan());
  harness.Collect();
  harness.Launch();
  ASSERT_EQ(harness.plan.sequences.size(), 1U);
  ASSERT_EQ(harness.plan.counts.size(), 1U);
  EXPECT_EQ(harness.plan.counts[0].id, waits->sink->tokens[0]);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*goes_on);
  EXPECT_EQ(waits->sink->tokens.size(), 5U);
}

}  // namespace
}  // namespace dunlin::engine
