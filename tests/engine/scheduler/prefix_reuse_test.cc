// SPDX-License-Identifier: Apache-2.0
#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

TEST(PrefixReuse, StartsFromThePagesOfAnEarlierPrompt) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(12), 1));
  harness.StepUntilIdle();
  Client* second = harness.Add(Ask(Prompt(14), 2));
  harness.Step();
  EXPECT_EQ(harness.Planned(second), 2);
  harness.StepUntilIdle();
  EXPECT_EQ(second->info().cached_tokens, 12);
  SchedulerHarness::ExpectAnswerAsAlone(*second);
  EXPECT_EQ(harness.scheduler.counters().prefix_queries, 26U);
  EXPECT_EQ(harness.scheduler.counters().prefix_hits, 12U);
}

// Pages written under a scale that neighbours set must not look like those of the request alone.
TEST(PrefixReuse, PagesOfNeighbourDependentRecipesAreNotShared) {
  for (const Fp8RecipeTraits& recipe : kFp8RecipeTable) {
    SchedulerHarness harness;
    Request request = Ask(Prompt(12), 1);
    request.profile = kFlashFp8;
    request.profile.fp8_recipe = recipe.recipe;
    harness.Add(request);
    harness.StepUntilIdle();
    Client* second = harness.Add(request);
    harness.StepUntilIdle();
    EXPECT_EQ(second->info().cached_tokens, recipe.deterministic ? 8 : 0) << recipe.name;
    EXPECT_EQ(harness.scheduler.counters().prefix_queries, recipe.deterministic ? 24U : 0U) << recipe.name;
    SchedulerHarness::ExpectAnswerAsAlone(*second);
  }
}

TEST(PrefixReuse, AlwaysComputesTheLastTokenOfThePrompt) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(12), 1));
  harness.StepUntilIdle();
  Client* same = harness.Add(Ask(Prompt(12), 2));
  harness.StepUntilIdle();
  EXPECT_EQ(same->info().cached_tokens, 8);
  SchedulerHarness::ExpectAnswerAsAlone(*same);
}

TEST(PrefixReuse, ContinuesAConversationFromItsOutput) {
  SchedulerHarness harness;
  Client* turn = harness.Add(Ask(Prompt(6), 11));
  harness.StepUntilIdle();
  std::vector<TokenId> longer = Prompt(6);
  longer.insert(longer.end(), turn->sink->tokens.begin(), turn->sink->tokens.end());
  longer.push_back(3);
  Client* next = harness.Add(Ask(longer, 2));
  harness.StepUntilIdle();
  EXPECT_EQ(next->info().cached_tokens, 16);
  SchedulerHarness::ExpectAnswerAsAlone(*next);
}

TEST(PrefixReuse, SharesPagesOfRunningSequencesInsteadOfCopying) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(16), 20));
  harness.Step();
  const int32_t used = harness.scheduler.num_pages_used();
  harness.Add(Ask(Prompt(17), 2));
  harness.Step();
  EXPECT_EQ(harness.scheduler.num_pages_used(), used + 2);  // one page each to go on in; the prompt's four are shared
}

TEST(PrefixReuse, JoinsEqualPagesThatWereComputedAtTheSameTime) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(8), 4));
  harness.Add(Ask(Prompt(8), 4));
  harness.Launch();
  EXPECT_EQ(harness.scheduler.num_pages_used(), 4);
  harness.Collect();
  EXPECT_EQ(harness.scheduler.num_pages_used(), 2);
  harness.StepUntilIdle();
}

TEST(PrefixReuse, KeepsTenantsApart) {
  SchedulerHarness harness;
  Request a = Ask(Prompt(12), 1);
  a.cache_salt = "a";
  harness.Add(a);
  harness.StepUntilIdle();
  Request b = a;
  b.cache_salt = "b";
  Client* other = harness.Add(b);
  Client* same = harness.Add(a);
  harness.StepUntilIdle();
  EXPECT_EQ(other->info().cached_tokens, 0);
  EXPECT_EQ(same->info().cached_tokens, 8);
}

TEST(PrefixReuse, ReadsNothingForARequestThatScoresItsPrompt) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(12), 1));
  harness.StepUntilIdle();
  Request scored = Ask(Prompt(12), 1);
  scored.sampling.prompt_logprobs = 0;
  Client* client = harness.Add(scored);
  harness.StepUntilIdle();
  EXPECT_EQ(client->info().cached_tokens, 0);
  EXPECT_EQ(client->sink->scores.size(), 11U);
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(PrefixReuse, NeverPublishesPagesOfAPromptThatEndsInNan) {
  SchedulerHarness harness;
  Request poisoned = Ask(Prompt(40), 2);
  poisoned.sampling.seed = simulation::kPoison | 5;  // in the first of three chunks
  Client* bad = harness.Add(poisoned);
  harness.StepUntilIdle();
  EXPECT_EQ(bad->reason(), FinishReason::kNumerical);
  EXPECT_EQ(harness.scheduler.pages().cache().num_cached(), 0);
  Client* good = harness.Add(Ask(Prompt(40), 2));
  harness.StepUntilIdle();
  EXPECT_EQ(good->info().cached_tokens, 0);
  SchedulerHarness::ExpectAnswerAsAlone(*good);
}

TEST(PrefixReuse, EvictsTheTailOfAPrefixBeforeItsHead) {
  SchedulerHarness harness;
  harness.Add(Ask(Prompt(40), 1));  // 10 cached pages of 16
  harness.StepUntilIdle();
  harness.Add(Ask(Prompt(36, 30), 1));  // 9 pages: 6 never used, then 3 of the tail
  harness.StepUntilIdle();
  Client* again = harness.Add(Ask(Prompt(41), 1));
  harness.StepUntilIdle();
  EXPECT_EQ(again->info().cached_tokens, 28);
  SchedulerHarness::ExpectAnswerAsAlone(*again);
}

TEST(PrefixReuse, KeepsDecodedPagesOutWherePrefillWouldGiveOtherBits) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.prefill_matches_decode = false;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(6), 20));
  harness.StepUntilIdle();
  EXPECT_EQ(harness.scheduler.pages().cache().num_cached(), 1);
}

// A restarted sequence decodes its output again, even if another's prompt had the same tokens.
TEST(PrefixReuse, TakesNoPagesOfAPromptForItsOutputWherePrefillWouldGiveOtherBits) {
  constexpr int32_t kPageTokens = 4;
  for (const bool prefill_matches_decode : {false, true}) {
    SequencePages pages(SchedulerHarness::Defaults().cache, true, prefill_matches_decode, 16);
    const auto prompt = MakeSequence(Ask(Prompt(18), 1), nullptr, kPageTokens);
    pages.AttachCached(prompt.get());
    ASSERT_GE(pages.Reserve(prompt.get(), 18), 18);
    prompt->num_computed = 18;
    pages.Publish(prompt.get(), 18, true);
    const auto restarted = MakeSequence(Ask(Prompt(6), 12), nullptr, kPageTokens);
    restarted->tokens = Prompt(18);
    pages.AttachCached(restarted.get());
    EXPECT_EQ(restarted->num_computed, prefill_matches_decode ? 16 : 4);
    pages.Release(restarted.get());
    pages.Release(prompt.get());
  }
}

TEST(PrefixReuse, IsOffWhenTheConfigSaysSo) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.prefix_cache = false;
  SchedulerHarness harness(options);
  harness.Add(Ask(Prompt(12), 1));
  harness.StepUntilIdle();
  Client* second = harness.Add(Ask(Prompt(12), 1));
  harness.StepUntilIdle();
  EXPECT_EQ(second->info().cached_tokens, 0);
  EXPECT_EQ(harness.scheduler.counters().prefix_queries, 0U);
}

}  // namespace
}  // namespace dunlin::engine
