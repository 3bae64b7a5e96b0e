// SPDX-License-Identifier: Apache-2.0
// Guessed tokens are verified in the step of the known one: right ones save steps, wrong ones change nothing.
#include <gmock/gmock.h>

#include "tests/engine/scheduler/known_answer.h"
#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

SchedulerOptions Options(bool adapt = false) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.cache.num_pages = 64;
  options.adapt_drafts = adapt;
  return options;
}

TEST(Drafts, GiveSeveralTokensInOneStepWhereTheyAreRight) {
  SchedulerHarness harness(Options());
  Client* client = AddGuessed(&harness, Ask(Prompt(5), 12), 4);
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(client->sink->tokens.size(), 1U);  // the prompt's step has none
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.Planned(client), 5);
  EXPECT_EQ(harness.plan.sub_batches[0].num_decode_tokens, 5);
  EXPECT_EQ(client->sink->tokens.size(), 6U);
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(client->sink->tokens.size(), 11U);
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(harness.Planned(client), 1);  // its last token is never computed
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(client->info().drafted_tokens, 8);
  EXPECT_EQ(client->info().accepted_tokens, 8);
  EXPECT_EQ(harness.scheduler.counters().drafts, 2U);
  EXPECT_THAT(std::vector<uint64_t>(harness.scheduler.counters().accepted_at_position.begin(),
                                    harness.scheduler.counters().accepted_at_position.begin() + 5),
              ::testing::ElementsAre(2, 2, 2, 2, 0));
}

TEST(Drafts, CountUpToTheFirstWrongOne) {
  SchedulerHarness harness(Options());
  Client* client = AddGuessed(&harness, Ask(Prompt(5), 30), 4, nullptr, {3, 9});
  ASSERT_TRUE(harness.Step());
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(client->sink->tokens.size(), 4U);  // two of four, and the draw in place of the third
  EXPECT_EQ(client->sequence->num_computed, 8);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(client->info().drafted_tokens - client->info().accepted_tokens, 2 + 4);
}

// What rejected guesses have left in a page is found by nobody.
TEST(Drafts, EnterThePrefixCacheOnlyAsFarAsTheyCount) {
  SchedulerHarness harness(Options());
  KnownAnswer* drafter = nullptr;
  Client* first = AddGuessed(&harness, Ask(Prompt(6), 20), 8, &drafter);
  drafter->all_wrong = true;
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*first);
  EXPECT_EQ(first->info().accepted_tokens, 0);
  EXPECT_GT(first->info().drafted_tokens, 40);
  Request second = first->request;
  for (const TokenId token : first->sink->tokens) second.prompt.push_back(token);
  Client* again = AddGuessed(&harness, second, 0);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*again);
  EXPECT_EQ(again->info().cached_tokens, 24);
}

TEST(Drafts, EndWithAStopTokenAndWithTheirReader) {
  SchedulerHarness harness(Options());
  Request request = Ask(Prompt(5), 30);
  const auto answer = TokensAlone(request);
  request.stopping.stop_token_ids = {answer[3]};
  Client* stops = AddGuessed(&harness, request, 8);
  harness.max_drafts = 8;
  Client* slow = harness.Add(Ask(Prompt(5), 30), 4);
  slow->sequence->drafts.drafter = std::make_unique<KnownAnswer>(*slow, std::vector<size_t>{});
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*stops);
  EXPECT_EQ(slow->reason(), FinishReason::kSlowReader);
  EXPECT_EQ(slow->sink->tokens.size(), 4U);
}

// They get what the step has left, and pages that nobody needs.
TEST(Drafts, TakeNothingFromOtherSequences) {
  SchedulerOptions options = Options();
  options.cache.num_pages = 12;
  SchedulerHarness harness(options);
  std::vector<Client*> clients;
  for (int i = 0; i < 3; ++i) clients.push_back(AddGuessed(&harness, Ask(Prompt(4, 5 + i), 13), 8));
  while (harness.Step()) {
    EXPECT_LE(harness.plan.num_tokens, options.max_tokens_per_step);
    EXPECT_EQ(harness.scheduler.counters().preemptions, 0U);
  }
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_GT(harness.scheduler.counters().accepted_tokens, 0U);
}

TEST(Drafts, SurvivePreemptionAndTwoStepsInFlight) {
  for (const int32_t depth : {1, 2}) {
    SchedulerOptions options = Options();
    options.cache.num_pages = 12;
    SchedulerHarness harness(options, depth);
    std::vector<Client*> clients;
    for (int i = 0; i < 4; ++i)
      clients.push_back(AddGuessed(&harness, Ask(Prompt(6, 5 + i), 25), 8, nullptr, {4, 7, 8, 15}));
    harness.StepUntilIdle();
    EXPECT_GT(harness.scheduler.counters().preemptions, 0U);
    EXPECT_GT(harness.scheduler.counters().accepted_tokens, 0U);
    for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

Request Constrained(const Request& request, std::vector<simulation::Place> places) {
  Request constrained = request;
  const size_t count = places.size();
  constrained.constraint = std::make_shared<simulation::ScriptedConstraint>(
      std::move(places), std::vector<TokenId>{kEos}, [count](size_t place, TokenId) { return (place + 1) % count; });
  return constrained;
}

TEST(Drafts, AreDrawnWithTheMasksOfTheirPlaces) {
  SchedulerHarness harness(Options());
  const Request request = Constrained(Ask(Prompt(5), 21), {{{1, 2, 3, 4}}, {{11, 12, 13}}, {{21, 22}}});
  Client* client = AddGuessed(&harness, request, 4);
  ASSERT_TRUE(harness.Step());
  EXPECT_EQ(client->sink->tokens.size(), 1U);
  for (const size_t expected : {6U, 11U, 16U}) {
    ASSERT_TRUE(harness.Step());
    EXPECT_EQ(harness.Planned(client), 5);
    EXPECT_EQ(client->sink->tokens.size(), expected);
  }
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(client->info().accepted_tokens, client->info().drafted_tokens);
}

// A wrong guess is the token after the right one: of most places here the constraint forbids it.
TEST(Drafts, EndWhereAConstraintForbidsOne) {
  SchedulerHarness harness(Options());
  const Request request = Constrained(Ask(Prompt(5), 30), {{{1, 3, 5, 7}}, {{11, 12}}, {{21, 31}}});
  Client* client = AddGuessed(&harness, request, 6, nullptr, {3, 8, 9, 13, 20});
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_GT(client->info().accepted_tokens, 12);
  EXPECT_LT(client->info().accepted_tokens, client->info().drafted_tokens);
}

// Two steps for a choice and four forced tokens become one where all of them are guessed.
TEST(Drafts, GoOnBehindForcedTokensThatTheyHave) {
  for (const bool guesses : {false, true}) {
    SchedulerHarness harness(Options());
    harness.max_forced_tokens = 8;
    const Request request = Constrained(Ask(Prompt(5), 40), {{{1, 2}}, {{33}}, {{34}}, {{35}}, {{36}}});
    Client* client = AddGuessed(&harness, request, guesses ? 7 : 0);
    int steps = 0;
    while (harness.Step()) ++steps;
    SchedulerHarness::ExpectAnswerAsAlone(*client);
    EXPECT_EQ(client->info().accepted_tokens > 20, guesses);
    EXPECT_LE(steps, guesses ? 10 : 19);
    EXPECT_GE(steps, guesses ? 5 : 16);
  }
}

TEST(Drafts, OfConstrainedSequencesSurvivePreemptionAndTwoStepsInFlight) {
  for (const int32_t depth : {1, 2}) {
    SchedulerOptions options = Options();
    options.cache.num_pages = 12;
    SchedulerHarness harness(options, depth);
    harness.max_forced_tokens = 2;
    std::vector<Client*> clients;
    for (int i = 0; i < 4; ++i) {
      const Request request =
          Constrained(Ask(Prompt(6, 5 + i), 25), {{{1, 2, 3}}, {{5}}, {{6}}, {{7}}, {{8, 9, 10}, true}, {{11, 12}}});
      clients.push_back(AddGuessed(&harness, request, 8, nullptr, {4, 7, 8, 15}));
    }
    harness.StepUntilIdle();
    EXPECT_GT(harness.scheduler.counters().accepted_tokens, 0U);
    for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  }
}

// Of a machine on which a step takes `fixed` and each of its rows `row`.
struct Machine {
  TimeNs fixed;
  TimeNs row;
};

void StepOn(const Machine& machine, SchedulerHarness* harness) {
  harness->Launch();
  harness->now += machine.fixed + machine.row * harness->plan.num_tokens;
  harness->Collect();
}

// Rows verified in the last of many steps of `count` sequences that are guessed right.
int32_t RowsOf(const Machine& machine, int32_t count) {
  SchedulerOptions options = Options(true);
  options.cache.num_pages = 16 * 512;
  options.max_sequences = 16;
  options.max_tokens_per_step = 400;
  SchedulerHarness harness(options);
  for (int32_t i = 0; i < count; ++i) AddGuessed(&harness, Ask(Prompt(3, 1 + i), 900), 8);
  for (int i = 0; i < 60; ++i) StepOn(machine, &harness);
  return static_cast<int32_t>(harness.plan.draft_rows.size());
}

TEST(Drafts, EndWhereRowsTakeTheTimeOfTheStep) {
  EXPECT_EQ(RowsOf({100000, 100}, 1), 8);
  EXPECT_EQ(RowsOf({100000, 100}, 16), 16 * 8);
  EXPECT_EQ(RowsOf({1000, 100000}, 1), 0);
  EXPECT_EQ(RowsOf({1000, 100000}, 16), 0);
  EXPECT_EQ(RowsOf({100000, 40000}, 16), 0);  // one sequence would have some
  EXPECT_GT(RowsOf({100000, 40000}, 1), 0);
}

// The first guesses of an answer count for more than later ones, so that a short one has the estimate in time.
TEST(Drafts, LearnFastFromTheFirstGuesses) {
  for (const bool wrong : {false, true}) {
    SchedulerHarness harness(Options());
    KnownAnswer* drafter = nullptr;
    Client* client = AddGuessed(&harness, Ask(Prompt(5), 100), 1, &drafter);
    drafter->all_wrong = wrong;
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(harness.Step());  // the prompt, then a guess each
    EXPECT_NEAR(client->sequence->drafts.acceptance, wrong ? 1.0 / 7 : 6.0 / 7, 1e-12);
    for (int i = 0; i < 20; ++i) ASSERT_TRUE(harness.Step());
    drafter->all_wrong = !wrong;
    ASSERT_TRUE(harness.Step());
    const double before = client->sequence->drafts.acceptance;
    ASSERT_TRUE(harness.Step());
    EXPECT_NEAR(client->sequence->drafts.acceptance, before + 0.1 * ((wrong ? 1.0 : 0.0) - before), 1e-12);
  }
}

// Guesses are compared with what is drawn also while none is verified.
TEST(Drafts, EndWhileTheyAreWrongAndComeBack) {
  SchedulerOptions options = Options(true);
  options.cache.num_pages = 512;
  options.max_tokens_per_step = 64;
  SchedulerHarness harness(options);
  KnownAnswer* drafter = nullptr;
  Client* client = AddGuessed(&harness, Ask(Prompt(3), 900), 8, &drafter);
  const Machine machine{100000, 10000};
  drafter->all_wrong = true;
  for (int i = 0; i < 60; ++i) StepOn(machine, &harness);
  EXPECT_EQ(harness.Planned(client), 1);
  drafter->all_wrong = false;
  for (int i = 0; i < 30; ++i) StepOn(machine, &harness);
  EXPECT_GT(harness.Planned(client), 3);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

}  // namespace
}  // namespace dunlin::engine
