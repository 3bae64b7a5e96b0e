// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

TEST(Planning, CutsAPromptIntoChunksOfTheBudget) {
  SchedulerHarness harness;
  Client* client = harness.Add(Ask(Prompt(40), 2));
  for (const int32_t chunk : {16, 16, 8, 1}) {
    harness.Step();
    EXPECT_EQ(harness.Planned(client), chunk);
  }
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Planning, SamplesOnlyFromTheLastKnownToken) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(20), 2));
  harness.Step();
  EXPECT_FALSE(harness.plan.sequences[0].samples);
  harness.Step();
  EXPECT_TRUE(harness.plan.sequences[0].samples);
}

TEST(Planning, GivesDecodesTheirTokenBeforePrefillsTakeTheRest) {
  SchedulerHarness harness;
  Client* decoding = harness.Add(Ask(Prompt(5), 20));
  harness.Step();
  Client* prefilling = harness.Add(Ask(Prompt(30, 9), 2));
  harness.Step();
  EXPECT_EQ(harness.Planned(decoding), 1);
  EXPECT_EQ(harness.Planned(prefilling), 15);
  EXPECT_EQ(harness.plan.num_tokens, 16);
}

TEST(Planning, StaysInTheBudgetWithMoreDecodesThanTokens) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_tokens_per_step = 2;
  SchedulerHarness harness(options);
  Client* clients[4];
  for (Client*& client : clients) client = harness.Add(Ask(Prompt(2), 6));
  while (harness.Step()) EXPECT_LE(harness.plan.num_tokens, 2);
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_LT(clients[0]->info().finished, clients[3]->info().finished);
}

TEST(Planning, KeepsTheOldestPrefillMovingUnderDecodesThatFillTheBudget) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_tokens_per_step = 3;
  SchedulerHarness harness(options);
  for (int i = 0; i < 3; ++i) harness.Add(Ask(Prompt(1, i + 1), 16));
  for (int i = 0; i < 3; ++i) harness.Step();
  Request urgent = Ask(Prompt(8), 1);
  urgent.priority = 1;
  Client* oldest = harness.Add(urgent);
  harness.Step();  // no budget is left for an admission
  int32_t steps = 0;
  for (; !oldest->ended() && steps < 100; ++steps) harness.Step();
  EXPECT_LE(steps, 24);
  SchedulerHarness::ExpectAnswerAsAlone(*oldest);
}

TEST(Planning, GroupsSequencesByProfileWithTheOldestFirst) {
  SchedulerHarness harness;
  Request math = Ask(Prompt(2), 5);
  math.profile = kMathBf16;
  Request flash = Ask(Prompt(3, 7), 5);
  harness.Add(math);
  harness.Add(flash);
  harness.Add(math);
  harness.Step();
  ASSERT_EQ(harness.plan.sub_batches.size(), 2U);
  EXPECT_EQ(harness.plan.sub_batches[0].profile, kMathBf16);
  EXPECT_EQ(harness.plan.sub_batches[0].num_sequences, 2);
  EXPECT_EQ(harness.plan.sub_batches[0].num_tokens, 4);
  EXPECT_EQ(harness.plan.sub_batches[1].profile, kFlashBf16);
  EXPECT_EQ(harness.plan.sub_batches[1].first_sequence, 2);
}

// The last token of a prompt may come alone: it is prefill all the same.
TEST(Planning, PutsWhatDecodesBeforeWhatLiesInAPrompt) {
  SchedulerHarness harness;
  Client* decoding = harness.Add(Ask(Prompt(5), 20));
  harness.Step();
  Request urgent = Ask(Prompt(16, 9), 2);
  urgent.priority = 1;
  Client* prefilling = harness.Add(urgent);
  harness.Step();
  ASSERT_EQ(prefilling->sequence->num_uncomputed(), 1);
  harness.Step();
  ASSERT_EQ(harness.plan.sub_batches.size(), 1U);
  EXPECT_EQ(harness.plan.sub_batches[0].num_tokens, 2);
  EXPECT_EQ(harness.plan.sub_batches[0].num_decode_tokens, 1);
  EXPECT_EQ(harness.plan.sequences[0].request_id, decoding->sequence->id);
  EXPECT_EQ(harness.plan.sequences[1].request_id, prefilling->sequence->id);
}

TEST(Planning, StarvesNoProfile) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_tokens_per_step = 4;
  SchedulerHarness harness(options);
  std::vector<Client*> clients;
  for (int i = 0; i < 12; ++i) {
    Request request = Ask(Prompt(6, i + 1), 4);
    request.profile = i % 3 == 0 ? kMathBf16 : i % 3 == 1 ? kFlashBf16 : kFlashFp8;
    clients.push_back(harness.Add(request));
  }
  harness.StepUntilIdle();
  for (size_t i = 0; i < clients.size(); ++i) {
    SchedulerHarness::ExpectAnswerAsAlone(*clients[i]);
    EXPECT_GT(clients[i]->info().finished, i < 4 ? 0 : clients[i - 4]->info().finished);
  }
}

TEST(Planning, LeavesOutASequenceWhoseSampleIsInFlight) {
  SchedulerHarness harness(SchedulerHarness::Defaults(), 2);
  Client* client = harness.Add(Ask(Prompt(4), 5));
  harness.Launch();
  EXPECT_EQ(harness.Planned(client), 4);
  harness.Launch();
  EXPECT_TRUE(harness.plan.empty());
  harness.Collect();
  harness.Launch();
  EXPECT_EQ(harness.Planned(client), 1);
  harness.Collect();
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Planning, LaunchesTheNextChunkOfAPromptWhileOneIsInFlight) {
  SchedulerHarness harness(SchedulerHarness::Defaults(), 2);
  Client* client = harness.Add(Ask(Prompt(30), 3));
  harness.Launch();
  EXPECT_EQ(harness.Planned(client), 16);
  harness.Launch();
  EXPECT_EQ(harness.Planned(client), 14);
  EXPECT_EQ(client->sequence->num_in_flight, 30);
  harness.Collect();
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Planning, DecodesAgainWhatWasDecodedWherePrefillWouldGiveOtherBits) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.prefill_matches_decode = false;
  options.prefix_cache = false;
  options.cache.num_pages = 6;
  options.max_sequences = 2;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(5), 12));
  Client* preempted = harness.Add(Ask(Prompt(5, 20), 12));
  bool replayed = false;
  while (harness.Step()) {
    for (const SequenceStep& step : harness.plan.sequences) {
      const bool in_prompt = step.first_position + step.num_tokens <= step.prompt_len;
      EXPECT_TRUE(in_prompt || step.num_tokens == 1);
      replayed |= !in_prompt && !step.samples;
    }
  }
  EXPECT_GT(preempted->info().preemptions, 0);
  EXPECT_TRUE(replayed);
  SchedulerHarness::ExpectAnswerAsAlone(*preempted);
}

}  // namespace
}  // namespace dunlin::engine
