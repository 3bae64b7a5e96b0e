// SPDX-License-Identifier: Apache-2.0
// Priorities decide who is first, never that a step stays empty: 16 tokens a step, so 4 are a quarter and the bound of
// a short prompt.
#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

SchedulerOptions ManyUnsharedPages() {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 16;
  options.cache.num_pages = 400;
  options.prefix_cache = false;
  return options;
}

Request AskAt(int32_t priority, std::vector<TokenId> prompt, int32_t max_tokens) {
  Request request = Ask(std::move(prompt), max_tokens);
  request.priority = priority;
  return request;
}

TEST(Priority, AShortPromptOfALowerOneGetsWhatALongOneMayNotUse) {
  SchedulerHarness harness(ManyUnsharedPages());
  harness.Add(AskAt(1, Prompt(3), 1));  // from now on short prompts are expected, so long ones keep to a quarter
  harness.Step();
  Client* high = harness.Add(AskAt(1, Prompt(60, 5), 1));
  Client* low = harness.Add(AskAt(0, Prompt(3, 9), 1));
  harness.Step();
  EXPECT_EQ(harness.Planned(high), 4);
  EXPECT_EQ(harness.Planned(low), 3);
}

TEST(Priority, ALowerOneStartsWhereTheHighestFindsNoPages) {
  SchedulerOptions options = ManyUnsharedPages();
  options.cache.num_pages = 16;
  SchedulerHarness harness(options);
  Client* running = harness.Add(AskAt(0, Prompt(40), 8));
  harness.Step();
  Client* high = harness.Add(AskAt(2, Prompt(40, 9), 2));
  Client* low = harness.Add(AskAt(0, Prompt(2, 30), 2));
  harness.StepUntilIdle();
  EXPECT_GE(high->info().first_scheduled, running->info().finished);
  EXPECT_LT(low->info().first_scheduled, running->info().finished);
}

TEST(Priority, LowerOnesPassAHigherOneByThreeTimesItsTokensAtMost) {
  SchedulerOptions options = ManyUnsharedPages();
  options.cache.num_pages = 16;
  SchedulerHarness harness(options);
  Client* running = harness.Add(AskAt(0, Prompt(40), 20));
  harness.Step();
  Client* high = harness.Add(AskAt(2, Prompt(40, 9), 2));
  while (!high->ended()) {
    if (harness.scheduler.waiting().size() < 2) harness.Add(AskAt(0, Prompt(4, 30), 1));
    ASSERT_TRUE(harness.Step());
    EXPECT_LE(high->sequence->passed_tokens, 3 * 40 + 4);
  }
  EXPECT_TRUE(running->ended());
}

TEST(Priority, ShortPromptsOfALowerOneDoNotHoldUpALongOne) {
  SchedulerHarness harness(ManyUnsharedPages());
  Client* high = harness.Add(AskAt(1, Prompt(160), 1));
  for (int step = 0; step < 10; ++step) {
    harness.Add(AskAt(0, Prompt(3, step + 1), 1));
    harness.Step();
    EXPECT_EQ(harness.Planned(high), 16);
  }
  EXPECT_TRUE(high->ended());
}

// Any mix: with room for all, whoever waits while a step has tokens left is a long prompt that has to make room.
TEST(Priority, NoShortPromptWaitsWhileAStepHasTokensLeft) {
  for (uint64_t seed = 1; seed <= 100; ++seed) {
    simulation::Dice dice(seed);
    SchedulerOptions options = ManyUnsharedPages();
    options.max_sequences = 64;
    options.cache.num_pages = 4000;
    SchedulerHarness harness(options, dice.Between(1, 2));
    for (int step = 0; step < 30; ++step) {
      for (int32_t i = dice.Between(0, 3); i > 0 && harness.scheduler.running().size() < 32; --i) {
        Request request =
            AskAt(dice.Between(-2, 2), Prompt(dice.OneIn(2) ? dice.Between(1, 4) : dice.Between(5, 60)), 2);
        if (dice.OneIn(3)) request.profile = kMathBf16;
        request.arrival = harness.now;
        harness.Add(request);
      }
      harness.Step();
      const SequenceList& waiting = harness.scheduler.waiting();
      if (harness.plan.num_tokens == options.max_tokens_per_step || harness.plan.empty()) continue;
      for (const Sequence* sequence : waiting) {
        const bool due = waiting.first()->passed_tokens >= 16;
        EXPECT_TRUE(due || sequence->num_tokens() > 4) << seed << " " << step;
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::engine
