// SPDX-License-Identifier: Apache-2.0
// Pages behind sliding windows are given back while their sequence runs.
#include <algorithm>

#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kWindow = 8;
constexpr KvGroups kAllSlide{.layers_per_page = 1, .num_full = 0, .num_sliding = 1, .window = kWindow};
constexpr KvGroups kSomeSlide{.layers_per_page = 1, .num_full = 1, .num_sliding = 2, .window = kWindow};

SchedulerOptions SlidingOptions(const KvGroups& groups, int32_t num_pages) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.groups = groups;
  options.cache.num_pages = num_pages;
  options.max_page_sets_per_sequence = 100;
  return options;
}

// Steps until nothing is left to do; the most pages that were in use between two steps.
int32_t MostUsed(SchedulerHarness* harness) {
  int32_t most = 0;
  while (harness->Step()) most = std::max(most, harness->scheduler.num_pages_used());
  return most;
}

TEST(SlidingWindow, ASequenceHoldsItsWindowAndAStep) {
  SchedulerHarness harness(SlidingOptions(kAllSlide, 64));
  Client* client = harness.Add(Ask(Prompt(40), 21));
  EXPECT_LE(MostUsed(&harness), kAllSlide.MostPages(60, 4, 16));
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
}

TEST(SlidingWindow, WhileItDecodesItHoldsTheWindowAlone) {
  SchedulerHarness harness(SlidingOptions(kAllSlide, 64));
  harness.Add(Ask(Prompt(4), 57));
  for (int i = 0; i < 40; ++i) harness.Step();
  EXPECT_EQ(harness.scheduler.running()[0]->num_computed, 43);
  EXPECT_EQ(harness.scheduler.num_pages_used(), 2) << "positions 36 to 42, of which the next token reads all";
  harness.StepUntilIdle();
}

TEST(SlidingWindow, ServesAContextThatIsLongerThanThePool) {
  SchedulerHarness harness(SlidingOptions(kAllSlide, 8));
  Client* client = harness.Add(Ask(Prompt(60), 41));  // 100 tokens are 25 pages
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(SlidingWindow, FullGroupsKeepTheirPages) {
  SchedulerHarness harness(SlidingOptions(kSomeSlide, 64));
  Client* client = harness.Add(Ask(Prompt(4), 57));
  for (int i = 0; i < 40; ++i) harness.Step();
  EXPECT_EQ(harness.scheduler.num_pages_used(), 11 + 2 * 2) << "43 tokens, and twice the window";
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(SlidingWindow, GroupsThatKeepAllHoldEveryPage) {
  KvGroups keep = kSomeSlide;
  keep.KeepAll();
  SchedulerHarness harness(SlidingOptions(keep, 64));
  harness.Add(Ask(Prompt(4), 57));
  for (int i = 0; i < 40; ++i) harness.Step();
  EXPECT_EQ(harness.scheduler.num_pages_used(), 3 * 11);
  harness.StepUntilIdle();
}

TEST(SlidingWindow, MoreSequencesRunBesideEachOther) {
  // Each comes to 40 tokens, 10 pages; a window and a token are 3.
  for (const bool keep : {true, false}) {
    SchedulerOptions options = SlidingOptions(kAllSlide, 24);
    if (keep) options.cache.groups.KeepAll();
    SchedulerHarness harness(options);
    for (int i = 0; i < 4; ++i) harness.Add(Ask(Prompt(4, 1 + 10 * i), 37));
    harness.StepUntilIdle();
    EXPECT_EQ(harness.scheduler.counters().preemptions > 0, keep);
  }
}

TEST(SlidingWindow, APrefixIsFoundWhosePagesWereGivenBack) {
  for (const KvGroups& groups : {kAllSlide, kSomeSlide}) {
    SchedulerHarness harness(SlidingOptions(groups, 64));
    harness.Add(Ask(Prompt(40), 1));
    harness.StepUntilIdle();
    Client* second = harness.Add(Ask(Prompt(42), 2));
    harness.Step();
    EXPECT_EQ(harness.Planned(second), 2);
    EXPECT_EQ(harness.scheduler.num_pages_used(), groups.num_full * 11 + groups.num_sliding * 3);
    harness.StepUntilIdle();
    EXPECT_EQ(second->info().cached_tokens, 40);
    SchedulerHarness::ExpectAnswerAsAlone(*second);
  }
}

// Where every layer slides, the window's pages are all that a sequence needs to go on.
TEST(SlidingWindow, APrefixIsFoundByItsLastWindow) {
  SchedulerHarness harness(SlidingOptions(kAllSlide, 16));
  harness.Add(Ask(Prompt(40), 1));
  harness.StepUntilIdle();
  harness.Add(Ask(Prompt(36, 30), 1));  // overwrites the pages that were given back first
  harness.StepUntilIdle();
  ASSERT_LT(harness.scheduler.pages().cache().num_cached(), 10 + 9);
  Client* again = harness.Add(Ask(Prompt(41), 1));
  harness.StepUntilIdle();
  EXPECT_EQ(again->info().cached_tokens, 40);
  SchedulerHarness::ExpectAnswerAsAlone(*again);
}

// The pages of the full group are there, those of the sliding groups before the last window are not.
TEST(SlidingWindow, AShorterPrefixWhoseWindowIsLostIsComputedAgain) {
  SchedulerHarness harness(SlidingOptions(kSomeSlide, 33));
  harness.Add(Ask(Prompt(40), 1));
  harness.StepUntilIdle();
  harness.Add(Ask(Prompt(20, 30), 1));
  harness.StepUntilIdle();
  Client* whole = harness.Add(Ask(Prompt(41), 1));
  harness.StepUntilIdle();
  EXPECT_EQ(whole->info().cached_tokens, 40);
  SchedulerHarness::ExpectAnswerAsAlone(*whole);
  Client* shorter = harness.Add(Ask(Prompt(21), 1));
  harness.StepUntilIdle();
  EXPECT_EQ(shorter->info().cached_tokens, 0);
  SchedulerHarness::ExpectAnswerAsAlone(*shorter);
}

TEST(SlidingWindow, APreemptedSequenceStartsFromWhatItGaveBack) {
  for (const KvGroups& groups : {kAllSlide, kSomeSlide}) {
    SchedulerOptions options = SlidingOptions(groups, groups.num_full == 0 ? 7 : 30);
    options.max_tokens_per_step = 8;
    SchedulerHarness harness(options);
    Client* first = harness.Add(Ask(Prompt(2), 30));
    Client* second = harness.Add(Ask(Prompt(2, 20), 30));
    Client* third = harness.Add(Ask(Prompt(2, 40), 30));
    harness.StepUntilIdle();
    EXPECT_GT(harness.scheduler.counters().preemptions, 0U);
    for (const Client* client : {first, second, third}) SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

TEST(SlidingWindow, AStepInFlightKeepsWhatItReads) {
  for (const KvGroups& groups : {kAllSlide, kSomeSlide}) {
    SchedulerHarness harness(SlidingOptions(groups, 40), 2);
    Client* first = harness.Add(Ask(Prompt(50), 9));
    Client* second = harness.Add(Ask(Prompt(50), 9));
    harness.StepUntilIdle();  // checks each plan's pages when it is collected
    SchedulerHarness::ExpectAnswerAsAlone(*first);
    SchedulerHarness::ExpectAnswerAsAlone(*second);
  }
}

}  // namespace
}  // namespace dunlin::engine
