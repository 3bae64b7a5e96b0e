// SPDX-License-Identifier: Apache-2.0
// Who goes first when prompts want more than a step has: 16 tokens a step, so 4 are a quarter and the bound of a short
// prompt.
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

SchedulerOptions ManyPages() {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 16;
  options.cache.num_pages = 400;
  return options;
}

std::vector<Client*> AddClients(SchedulerHarness* harness, int count, const Request& request) {
  std::vector<Client*> clients;
  for (int i = 0; i < count; ++i) clients.push_back(harness->Add(request));
  return clients;
}

TEST(Fairness, AShortPromptIsInTheNextStepWhateverLongOnesCameBefore) {
  SchedulerHarness harness(ManyPages());
  AddClients(&harness, 8, Ask(Prompt(40), 4));
  harness.Step();
  Client* client = harness.Add(Ask(Prompt(4, 9), 2));
  harness.Step();
  EXPECT_EQ(harness.Planned(client), 4);
  EXPECT_EQ(client->sink->tokens.size(), 1U);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Fairness, LongPromptsGetAQuarterOfTheStepInWhichAShortOneEnds) {
  SchedulerHarness harness(ManyPages());
  AddClients(&harness, 8, Ask(Prompt(40), 1));
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 16);
  harness.Add(Ask(Prompt(3, 9), 1));
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 3 + 4);
}

TEST(Fairness, LongPromptsGetAQuarterOfAStepUntilShortOnesAreForgotten) {
  SchedulerHarness harness(ManyPages());
  harness.Add(Ask(Prompt(600), 1));
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 16);
  harness.Add(Ask(Prompt(3, 9), 1));
  harness.Step();
  for (int32_t tokens = 0; tokens < Scheduler::kStepsToForgetShort * 16; tokens += 4) {
    harness.Step();
    ASSERT_EQ(harness.plan.num_tokens, 4) << "after " << tokens;
  }
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 16);
}

TEST(Fairness, TheEndOfALongPromptIsNoShortOne) {
  SchedulerHarness harness(ManyPages());
  harness.Add(Ask(Prompt(18), 1));
  harness.Step();
  harness.Step();
  harness.Add(Ask(Prompt(40, 7), 1));
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 16);
}

TEST(Fairness, TheEndsOfLongPromptsShareTheirQuarter) {
  SchedulerHarness harness(ManyPages());
  AddClients(&harness, 3, Ask(Prompt(18), 1));
  harness.Add(Ask(Prompt(3, 9), 1));
  harness.Step();
  for (int step = 0; step < 6; ++step) {
    harness.Step();
    EXPECT_LE(harness.plan.num_tokens, 4 + 2);  // and the last tokens of two
  }
}

TEST(Fairness, ShortPromptsDoNotHoldUpEachOther) {
  SchedulerHarness harness(ManyPages());
  AddClients(&harness, 8, Ask(Prompt(4), 1));
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 16);
}

TEST(Fairness, TheOldestPromptKeepsAQuarterUnderAFloodOfShortOnes) {
  SchedulerHarness harness(ManyPages());
  Client* oldest = harness.Add(Ask(Prompt(40), 1));
  harness.Step();
  for (int step = 0; step < 6; ++step) {
    AddClients(&harness, 5, Ask(Prompt(4, step + 1), 1));
    harness.Step();
    EXPECT_EQ(harness.Planned(oldest), 4);
  }
  while (!oldest->ended()) harness.Step();
  SchedulerHarness::ExpectAnswerAsAlone(*oldest);
}

TEST(Fairness, OfAFloodOfOneProfileNobodyIsAheadOfTheFirstOfAnother) {
  SchedulerHarness harness(ManyPages());
  Request math = Ask(Prompt(3), 4);
  math.profile = kMathBf16;
  AddClients(&harness, 12, math);
  Client* client = harness.Add(Ask(Prompt(4), 1));
  harness.Step();
  EXPECT_EQ(harness.Planned(client), 4);
}

TEST(Fairness, HigherPriorityComesBeforeShorter) {
  SchedulerHarness harness(ManyPages());
  AddClients(&harness, 8, Ask(Prompt(4), 1));
  Request urgent = Ask(Prompt(14), 1);
  urgent.priority = 1;
  Client* client = harness.Add(urgent);
  harness.Step();
  EXPECT_EQ(harness.Planned(client), 14);
}

TEST(Fairness, ADueSequenceIsStartedBesideShortPromptsThatEnd) {
  SchedulerHarness harness(ManyPages());
  AddClients(&harness, 1, Ask(Prompt(400), 1));
  harness.Step();
  Client* waits = harness.Add(Ask(Prompt(399), 1));  // the one that runs is as long, and older
  int32_t steps = 0;
  for (; harness.Planned(waits) == 0 && steps < 1000; ++steps) {
    AddClients(&harness, 3, Ask(Prompt(4, steps + 1), 1));
    harness.Step();
  }
  // Twelve tokens of short prompts a step beside the quarter of the oldest: due after 1197 of them.
  EXPECT_LE(steps, 102);
  EXPECT_LE(waits->sequence->passed_tokens, 3 * 399 + 4);
}

}  // namespace
}  // namespace dunlin::engine
