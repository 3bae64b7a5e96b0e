// SPDX-License-Identifier: Apache-2.0
// While a step draws, the next one is planned over the tokens that it will draw; what ends with one of them has a row
// computed in vain, which nobody sees.
#include <gmock/gmock.h>

#include "tests/engine/scheduler/known_answer.h"
#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

SchedulerOptions Ahead() {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.plan_ahead = true;
  return options;
}

class PlanAhead : public ::testing::Test {
 protected:
  SchedulerHarness harness_{Ahead(), /*depth=*/2};
  using Client = SchedulerHarness::Client;

  // Launches the next step while one is in flight, and collects that.
  void StepAhead() {
    ASSERT_TRUE(harness_.scheduler.CanPlan());
    harness_.Launch();
    ASSERT_FALSE(harness_.plan.empty());
    harness_.Collect();
  }
};

TEST_F(PlanAhead, EveryStepButTheFirstIsPlannedOverATokenThatIsBeingDrawn) {
  Client* client = harness_.Add(Ask(Prompt(5), 4));
  harness_.Launch();
  EXPECT_EQ(harness_.plan.sequences[0].drawn_by, -1);
  for (int32_t step = 1; step < 4; ++step) {
    StepAhead();
    const SequenceStep& planned = harness_.plan.sequences[0];
    EXPECT_EQ(planned.drawn_by, 0);
    EXPECT_EQ(planned.first_position, 4 + step);
    EXPECT_TRUE(planned.samples);
    EXPECT_EQ(planned.row.position, 5 + step);
    EXPECT_EQ(client->sink->tokens.size(), static_cast<size_t>(step));
  }
  harness_.Launch();
  EXPECT_TRUE(harness_.plan.empty()) << "the draw in flight is the last one";
  harness_.Collect();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_EQ(harness_.scheduler.num_pages_used(), 0);
}

TEST_F(PlanAhead, SequencesAreNamedByTheirPlaceInTheStepThatDraws) {
  Client* clients[3];
  Request other = Ask(Prompt(6, 20), 9);
  other.profile = kMathBf16;
  clients[0] = harness_.Add(Ask(Prompt(3), 7));
  clients[1] = harness_.Add(other);
  clients[2] = harness_.Add(Ask(Prompt(2, 9), 8));
  harness_.StepUntilIdle();  // the runtime compares each draw with the sequence that takes it
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST_F(PlanAhead, AStopTokenLeavesOneRowInVain) {
  Request request = Ask(Prompt(5), 30);
  const std::vector<TokenId> answer = TokensAlone(request);
  request.stopping.stop_token_ids = {answer[3]};
  Client* client = harness_.Add(request);
  Client* other = harness_.Add(Ask(Prompt(4, 17), 12));
  harness_.Launch();
  while (!client->ended()) StepAhead();
  EXPECT_EQ(client->sequence->state, SequenceState::kRetiring) << "its pages are those of the step in flight";
  EXPECT_EQ(harness_.Planned(client), 1);
  harness_.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
  SchedulerHarness::ExpectAnswerAsAlone(*other);
  EXPECT_EQ(harness_.scheduler.num_pages_used(), 0);
}

TEST_F(PlanAhead, PagesOfAnOutputEnterThePrefixCacheWithoutTheRowInVain) {
  Request request = Ask(Prompt(6), 30);
  const std::vector<TokenId> answer = TokensAlone(request);
  request.stopping.stop_token_ids = {answer[9]};  // the 16th token, whose key would fill the fourth page
  Client* client = harness_.Add(request);
  harness_.StepUntilIdle();
  ASSERT_EQ(client->sink->tokens.size(), 10U);
  Request again = Ask(request.prompt, 3);
  for (const TokenId token : client->sink->tokens) again.prompt.push_back(token);
  again.prompt.push_back(7);
  Client* second = harness_.Add(again);
  harness_.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*second);
  EXPECT_GE(second->info().cached_tokens, 12);
}

TEST_F(PlanAhead, ACancelledSequenceKeepsItsPagesUntilBothStepsAreCommitted) {
  Client* client = harness_.Add(Ask(Prompt(5), 30));
  harness_.Launch();
  StepAhead();
  harness_.Launch();
  harness_.scheduler.End(client->sequence.get(), FinishReason::kCancelled, harness_.now);
  EXPECT_EQ(client->sink->tokens.size(), 1U);
  harness_.Collect();
  EXPECT_GT(harness_.scheduler.num_pages_used(), 0);
  harness_.Collect();
  EXPECT_EQ(harness_.scheduler.num_pages_used(), 0);
  EXPECT_EQ(client->sink->tokens.size(), 1U);
  EXPECT_EQ(harness_.scheduler.retired().size(), 1U);
}

TEST_F(PlanAhead, WaitsWhereTheNextDrawNeedsTheToken) {
  const auto constraint = simulation::ScriptedConstraint::Chain({{{11, 12}}, {{13, 14}}, {{15, 16}}}, {});
  const struct {
    const char* what;
    void (*change)(Request*);
  } cases[] = {
      {"a penalty", [](Request* request) { request->sampling.presence_penalty = 0.5F; }},
      {"bad words",
       [](Request* request) {
         request->sampling.bad_words = {{3, 4}};
       }},
      {"scales of neighbours",
       [](Request* request) {
         request->profile = kFlashFp8;
         request->profile.fp8_recipe = Fp8Recipe::kCurrent;
       }},
  };
  for (const auto& each : cases) {
    SchedulerHarness harness(Ahead(), /*depth=*/2);
    Request request = Ask(Prompt(3), 5);
    each.change(&request);
    Client* waits = harness.Add(request);
    Client* goes_on = harness.Add(Ask(Prompt(4, 30), 9));
    harness.Launch();
    EXPECT_FALSE(harness.scheduler.CanPlan()) << each.what;
    harness.Collect();
    harness.Launch();
    EXPECT_EQ(harness.Planned(waits) + harness.Planned(goes_on), 2)
        << each.what << ": one step reads the weights for both";
    harness.StepUntilIdle();
    SchedulerHarness::ExpectAnswerAsAlone(*goes_on);
    EXPECT_EQ(waits->sink->tokens.size(), 5U) << each.what;
  }
  SchedulerHarness harness(Ahead(), /*depth=*/2);
  Request request = Ask(Prompt(5), 5);
  request.constraint = constraint;
  harness.Add(request);
  Client* guessed = AddGuessed(&harness, Ask(Prompt(6), 12), 4);
  for (int step = 0; step < 3; ++step) {
    harness.Launch();
    EXPECT_FALSE(harness.scheduler.CanPlan());
    harness.Collect();
  }
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*guessed);
}

TEST_F(PlanAhead, ANewPromptIsInTheNextStep) {
  Client* first = harness_.Add(Ask(Prompt(5), 20));
  harness_.Launch();
  StepAhead();
  Client* second = harness_.Add(Ask(Prompt(30, 7), 6));
  StepAhead();
  EXPECT_EQ(harness_.Planned(first), 1);
  EXPECT_EQ(harness_.Planned(second), 15);
  StepAhead();
  EXPECT_EQ(harness_.Planned(first), 1);
  EXPECT_EQ(harness_.Planned(second), 15);
  StepAhead();
  EXPECT_EQ(harness_.plan.sequences[1].drawn_by, 1);
  harness_.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*first);
  SchedulerHarness::ExpectAnswerAsAlone(*second);
}

// Nobody's pages can be taken while all are in flight; once they are committed the newest gives its own.
TEST_F(PlanAhead, PreemptsWhereAllPagesAreInFlight) {
  SchedulerOptions options = Ahead();
  options.cache.num_pages = 8;
  SchedulerHarness harness(options, /*depth=*/2);
  std::vector<Client*> clients;
  for (TokenId first = 1; first <= 3; ++first) clients.push_back(harness.Add(Ask(Prompt(4, 10 * first), 17)));
  harness.StepUntilIdle();
  for (const Client* client : clients) SchedulerHarness::ExpectAnswerAsAlone(*client);
  EXPECT_GT(harness.scheduler.counters().preemptions, 0U);
}

}  // namespace
}  // namespace dunlin::engine
