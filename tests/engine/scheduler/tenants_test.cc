// SPDX-License-Identifier: Apache-2.0
// Shares of tenants: 16 tokens a step, so 4 are a quarter.
#include "engine/scheduler/tenants.h"

#include <algorithm>

#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::engine {
namespace {

constexpr TenantId kHeavy = 1;
constexpr TenantId kLight = 2;

SchedulerOptions Roomy(int32_t max_sequences = 16) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = max_sequences;
  options.max_live = 400;
  options.prefix_cache = false;
  options.cache.num_pages = 4000;
  return options;
}

Request AskAs(TenantId tenant, std::vector<TokenId> prompt, int32_t max_tokens, int32_t priority = 0) {
  Request request = Ask(std::move(prompt), max_tokens);
  request.tenant = tenant;
  request.priority = priority;
  return request;
}

void AddFlood(SchedulerHarness* harness, int count, const Request& request) {
  for (int i = 0; i < count; ++i) harness->Add(request);
}

int64_t NumRunning(const SchedulerHarness& harness, TenantId tenant) {
  const SequenceList& running = harness.scheduler.running();
  return std::count_if(running.begin(), running.end(),
                       [tenant](const Sequence* sequence) { return sequence->request.tenant == tenant; });
}

// The heavy one alone, for longer than the window.
void FloodAlone(SchedulerHarness* harness, int32_t prompt_tokens = 40) {
  AddFlood(harness, 100, AskAs(kHeavy, Prompt(prompt_tokens), 1));
  for (int step = 0; step < 3 * Tenants::kWindowSteps; ++step) harness->Step();
}

TEST(Fairness, APromptOfTheTenantThatHadLessComesFirstWhateverItsLength) {
  SchedulerHarness harness(Roomy());
  FloodAlone(&harness, 3);
  Client* client = harness.Add(AskAs(kLight, Prompt(60, 9), 2));
  harness.Step();
  EXPECT_EQ(harness.Planned(client), 16);
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Fairness, AFloodKeepsToAnEighthOfTheStepWhileAnotherTenantIsRemembered) {
  SchedulerHarness harness(Roomy());
  FloodAlone(&harness);
  EXPECT_EQ(harness.plan.num_tokens, 16) << "nobody else is known";
  harness.Add(AskAs(kLight, Prompt(6, 9), 1));
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 6 + 1) << "a token of its oldest prompt beside the other one's";
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 2);
  harness.now += Tenants::kMemory;
  harness.Step();
  EXPECT_EQ(harness.plan.num_tokens, 16);
}

TEST(Fairness, AFloodYieldsEverySecondStepToPromptsOfAnother) {
  SchedulerOptions options = Roomy();
  options.max_tokens_per_step = 64;
  SchedulerHarness harness(options);
  AddFlood(&harness, 8, AskAs(kHeavy, Prompt(2), 400));
  AddFlood(&harness, 100, AskAs(kHeavy, Prompt(200), 1));
  for (int step = 0; step < 3 * Tenants::kWindowSteps; ++step) harness.Step();
  Client* client = harness.Add(AskAs(kLight, Prompt(200, 9), 1));
  const auto of_flood = [&] { return harness.plan.num_tokens - harness.Planned(client); };
  for (int pair = 0; pair < 2; ++pair) {
    harness.Step();
    EXPECT_LE(of_flood(), 2) << "one decode of the oldest, and a 64th for the oldest prompt";
    EXPECT_GE(harness.Planned(client), 62);
    harness.Step();
    EXPECT_EQ(of_flood(), 8 + 4) << "its decodes, and a sixteenth";
  }
  harness.StepUntilIdle();
  SchedulerHarness::ExpectAnswerAsAlone(*client);
}

TEST(Fairness, APromptThatEndsSoonHasTheWholeStepBesideATenantThatIsIdle) {
  SchedulerHarness harness(Roomy());
  harness.Add(AskAs(kLight, Prompt(3), 1));
  harness.StepUntilIdle();
  harness.Add(AskAs(kHeavy, Prompt(100), 1));
  for (int step = 0; step < Tenants::kWindowSteps / 2; ++step) {
    harness.Step();
    EXPECT_EQ(harness.plan.num_tokens, 16);
  }
}

TEST(Fairness, TenantsThatWaitTakeTurns) {
  SchedulerHarness harness(Roomy());
  AddFlood(&harness, 40, AskAs(kHeavy, Prompt(30), 1));
  AddFlood(&harness, 40, AskAs(kLight, Prompt(30), 1));
  int64_t tokens[3] = {};
  for (int step = 0; step < 60; ++step) {
    harness.Step();
    for (const SequenceStep& planned : harness.plan.sequences) {
      tokens[planned.request_id <= 40 ? kHeavy : kLight] += planned.num_tokens;
    }
    EXPECT_EQ(harness.plan.num_tokens, 16) << "what one does not need is the other's";
    EXPECT_LE(std::abs(tokens[kHeavy] - tokens[kLight]), 32);
  }
}

TEST(Fairness, PriorityComesBeforeShares) {
  SchedulerHarness harness(Roomy());
  FloodAlone(&harness);
  Client* urgent = harness.Add(AskAs(kHeavy, Prompt(14, 9), 1, 1));
  Client* client = harness.Add(AskAs(kLight, Prompt(14, 9), 1));
  harness.Step();
  EXPECT_EQ(harness.Planned(urgent), 12) << "all but the quarter of the oldest";
  EXPECT_EQ(harness.Planned(client), 0);
}

TEST(Fairness, AFloodLeavesSequencesToOthersOnceThereAreSome) {
  SchedulerOptions options = Roomy(16);
  options.max_tokens_per_step = 512;
  SchedulerHarness harness(options);
  AddFlood(&harness, 100, AskAs(kHeavy, Prompt(1), 6));
  harness.Step();
  EXPECT_EQ(NumRunning(harness, kHeavy), 16) << "alone, it has them all";
  harness.Add(AskAs(kLight, Prompt(2, 9), 1));
  for (int step = 0; step < 40; ++step) harness.Step();
  EXPECT_EQ(NumRunning(harness, kHeavy), 14) << "seven times the two that are left";
  Client* client = harness.Add(AskAs(kLight, Prompt(2, 9), 1));
  harness.Step();
  EXPECT_TRUE(client->ended());
}

TEST(Fairness, AFloodLeavesAnEighthOfThePages) {
  SchedulerOptions options = Roomy();
  options.cache.num_pages = 80;
  SchedulerHarness harness(options);
  harness.Add(AskAs(kLight, Prompt(2, 9), 1));
  harness.Step();
  AddFlood(&harness, 20, AskAs(kHeavy, Prompt(40), 1));
  for (int step = 0; step < 40; ++step) {
    harness.Step();
    EXPECT_LE(harness.scheduler.num_pages_used(), 70);
  }
  Client* client = harness.Add(AskAs(kLight, Prompt(30, 9), 1));
  harness.Step();
  EXPECT_EQ(client->sequence->info.first_scheduled, harness.now);
  harness.StepUntilIdle();
}

// Small sequences of another tenant take the pages as they come free; the large one is passed by a bounded number.
TEST(Fairness, ASequenceThatFindsNoPagesHoldsBackOtherTenants) {
  SchedulerOptions options = Roomy();
  options.cache.num_pages = 32;
  SchedulerHarness harness(options);
  const auto refill = [&harness] {
    while (harness.scheduler.waiting().size() < 6) harness.Add(AskAs(kHeavy, Prompt(12), 4));
  };
  refill();
  for (int step = 0; step < 40; ++step) {
    refill();
    harness.Step();
  }
  Client* large = harness.Add(AskAs(kLight, Prompt(110, 9), 1));
  int steps = 0;
  for (; !large->ended() && steps < 400; ++steps) {
    refill();
    harness.Step();
  }
  EXPECT_LT(steps, 200);
  EXPECT_LE(large->sequence->passed_tokens, 3 * 110 + 12);
}

TEST(Tenants, RemembersAFewWithoutSequences) {
  Tenants tenants(100, 16);
  for (TenantId id = 1; id <= 100; ++id) {
    Tenant* tenant = tenants.Join(id, 0);
    --tenant->num_waiting;
    tenant->last_live = static_cast<TimeNs>(id);
  }
  Tenant* live = tenants.Join(1000, 0);
  EXPECT_EQ(tenants.num_known(), 101U);
  tenants.BeginPlan(200);
  EXPECT_EQ(tenants.num_known(), 1 + Tenants::kMaxRemembered);
  EXPECT_EQ(tenants.ordered(), std::vector<Tenant*>{live});
  tenants.BeginPlan(Tenants::kMemory + 99);
  EXPECT_EQ(tenants.num_known(), 2U) << "the last one to leave is still remembered";
  tenants.BeginPlan(Tenants::kMemory + 100);
  EXPECT_FALSE(tenants.several());
}

TEST(Tenants, ANewOneFindsAPlaceWhenAllHaveLeftSinceTheLastPlan) {
  Tenants tenants(4, 16);
  for (TenantId id = 1; id <= 200; ++id) {
    Tenant* tenant = tenants.Join(id, 0);
    EXPECT_EQ(tenant->id, id);
    --tenant->num_waiting;
    tenant->last_live = static_cast<TimeNs>(id);
  }
}

TEST(Tenants, OneIsOwedAndOwesAWindowAtMost) {
  Tenants tenants(4, 16);
  Tenant* first = tenants.Join(1, 0);
  Tenants::Charge(1'000'000, first);
  tenants.BeginPlan(1);
  Tenant* second = tenants.Join(2, 0);
  tenants.BeginPlan(2);
  EXPECT_EQ(first->count - second->count, tenants.window());
  EXPECT_EQ(tenants.ordered().front(), second);
  Tenants::Charge(1'000'000, first);
  tenants.BeginPlan(3);
  EXPECT_LE(first->count - second->count, 2 * tenants.window());
  EXPECT_TRUE(first->is_behind);
  EXPECT_FALSE(second->is_behind);
}

TEST(Tenants, WhoeverHasTheEngineToItselfOwesNothing) {
  Tenants tenants(4, 16);
  Tenant* first = tenants.Join(1, 0);
  --first->num_waiting;
  ++first->num_running;  // it draws tokens
  Tenants::Charge(1'000'000, first);
  tenants.BeginPlan(1);
  EXPECT_TRUE(tenants.ordered().empty());
  const Tenant* second = tenants.Join(2, 0);
  EXPECT_EQ(first->count - second->count, tenants.window());
}

}  // namespace
}  // namespace dunlin::engine
