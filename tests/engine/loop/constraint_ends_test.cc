// SPDX-License-Identifier: Apache-2.0
// How a constrained output ends: at its grammar's end, before it, and where no token continues it. Every case runs with
// and without forced tokens, and has to give what the request gives alone, drawn token by token.
#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/fake_model.h"
#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

using simulation::Place;
using simulation::ScriptedConstraint;

std::vector<TokenId> Any() {
  std::vector<TokenId> tokens;
  for (TokenId id = 1; id < SchedulerHarness::kVocabSize; ++id) tokens.push_back(id);
  return tokens;
}

Request AskUnder(std::vector<Place> places) {
  Request request = Ask(Prompt(5), 12);
  request.constraint = ScriptedConstraint::Chain(std::move(places), {kEos});
  return request;
}

struct End {
  FinishReason reason;
  size_t num_tokens;
  std::optional<TokenId> stop_token_id = std::nullopt;
};

void ExpectEnd(const Request& request, const End& end) {
  for (const int32_t max_forced : {0, 8}) {
    SchedulerHarness harness;
    harness.max_forced_tokens = max_forced;
    const Client* client = harness.Add(request);
    const Client* neighbour = harness.Add(Ask(Prompt(9, 7), 10));
    harness.StepUntilIdle();
    EXPECT_EQ(client->reason(), end.reason);
    EXPECT_EQ(client->sink->tokens.size(), end.num_tokens);
    EXPECT_EQ(client->info().completion_tokens, static_cast<int32_t>(end.num_tokens));
    EXPECT_EQ(client->info().stop_token_id, end.stop_token_id);
    SchedulerHarness::ExpectAnswerAsAlone(*client);
    SchedulerHarness::ExpectAnswerAsAlone(*neighbour);
    EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
  }
}

TEST(ConstraintEnds, AtEndOfSequenceWhereTheGrammarIsComplete) {
  Request request = AskUnder({{Any()}, {Any()}, {{}, true}});
  ASSERT_TRUE(request.stopping.ignore_eos);  // the grammar's end is the output's
  ExpectEnd(request, {FinishReason::kStop, 3, kEos});
  request.stopping.ignore_eos = false;
  ExpectEnd(request, {FinishReason::kStop, 3, kEos});
}

TEST(ConstraintEnds, AtMaxTokensInsideTheGrammar) {
  ExpectEnd(AskUnder({{Any()}}), {FinishReason::kLength, 12});
  ExpectEnd(AskUnder({{{9}}}), {FinishReason::kLength, 12});  // forced on and on
}

TEST(ConstraintEnds, AtAStopTokenInsideTheGrammar) {
  Request request = AskUnder({{Any()}, {{9}}, {{17}}, {{11}}});
  request.stopping.stop_token_ids = {17};
  ExpectEnd(request, {FinishReason::kStop, 3, 17});
}

TEST(ConstraintEnds, WhereNoTokenContinues) {
  ExpectEnd(AskUnder({{Any()}, {}}), {FinishReason::kConstraint, 1});
  ExpectEnd(AskUnder({{{9}}, {{8}}, {{7}}, {}}), {FinishReason::kConstraint, 3});
  ExpectEnd(AskUnder({Place{}}), {FinishReason::kConstraint, 0});
}

TEST(ConstraintEnds, AsCompleteWhereOnlyABannedEndOfSequenceIsLeft) {
  Request request = AskUnder({{Any()}, {{}, true}});
  request.sampling.suppressed_token_ids = {kEos};
  ExpectEnd(request, {FinishReason::kStop, 1});
  request.sampling.suppressed_token_ids.clear();
  request.sampling.allowed_token_ids = Any();
  ExpectEnd(request, {FinishReason::kStop, 1});
  request.sampling.allowed_token_ids.clear();
  request.stopping.min_tokens = 5;
  ExpectEnd(request, {FinishReason::kStop, 1});
}

TEST(ConstraintEnds, WhereTheRequestBansTheOnlyContinuation) {
  const std::vector<Place> places = {{Any()}, {{9}}, {{17}}, {Any()}};
  Request request = AskUnder(places);
  request.sampling.suppressed_token_ids = {17};
  ExpectEnd(request, {FinishReason::kConstraint, 2});
  request = AskUnder(places);
  request.sampling.bad_words = {{9, 17}};
  ExpectEnd(request, {FinishReason::kConstraint, 2});
  request = AskUnder(places);
  request.stopping.stop_token_ids = {17};
  request.stopping.min_tokens = 4;
  ExpectEnd(request, {FinishReason::kConstraint, 2});
  request = AskUnder(places);
  request.sampling.allowed_token_ids = Any();
  request.sampling.allowed_token_ids.erase(request.sampling.allowed_token_ids.begin() + 16);
  ExpectEnd(request, {FinishReason::kConstraint, 2});
}

TEST(ConstraintEnds, WhenTheStateFails) {
  Place fails{Any()};
  fails.fails = true;
  ExpectEnd(AskUnder({fails}), {FinishReason::kConstraint, 0});
  ExpectEnd(AskUnder({{Any()}, fails}), {FinishReason::kConstraint, 1});
  ExpectEnd(AskUnder({{{9}}, {{8}}, fails}), {FinishReason::kConstraint, 2});
  Place refuses{{9}};
  refuses.refuses = true;
  ExpectEnd(AskUnder({{Any()}, refuses, {Any()}}), {FinishReason::kConstraint, 2});
}

TEST(ConstraintEnds, NumericallyOnlyWhereATokenCouldHaveBeenDrawn) {
  Request request = AskUnder({{Any()}, {Any()}, {}});
  request.sampling.seed = simulation::kPoison | 5U;  // the first token of the output
  ExpectEnd(request, {FinishReason::kNumerical, 1});
  request.sampling.seed = simulation::kPoison | 6U;
  ExpectEnd(request, {FinishReason::kConstraint, 2});
}

TEST(ConstraintEnds, WithPromptScoresAndLogprobs) {
  Request request = AskUnder({{Any()}, {{9}}, {{8}}, {}});
  request.sampling.prompt_logprobs = 0;
  ExpectEnd(request, {FinishReason::kConstraint, 3});
  request.sampling.logprobs = 0;
  ExpectEnd(request, {FinishReason::kConstraint, 3});
}

}  // namespace
}  // namespace dunlin::engine
