// SPDX-License-Identifier: Apache-2.0
// Sequences with one prefix prefill it once: pages are shared as they are filled.
#include <algorithm>
#include <numeric>

#include "tests/engine/scheduler/scheduler_harness.h"
#include "tests/simulation/workload.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kSharedPageTokens = 4;

SchedulerOptions SharingOptions(int32_t step_overhead_tokens = 8) {
  SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_sequences = 16;
  options.max_tokens_per_step = 64;
  options.cache.num_pages = 600;
  options.step_overhead_tokens = step_overhead_tokens;
  return options;
}

// A prompt whose pages are all different.
std::vector<TokenId> Varied(int32_t length, int32_t salt = 0) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back(1 + (i * i + 7 * i * salt + salt) % 49);
  return prompt;
}

// Tokens of prompts that the last plan computes.
int32_t PromptTokens(const StepPlan& plan) {
  int32_t tokens = 0;
  for (const SequenceStep& step : plan.sequences) tokens += step.first_position < step.prompt_len ? step.num_tokens : 0;
  return tokens;
}

// Runs until idle; the tokens of prompts that were computed on the way.
int32_t RunAll(SchedulerHarness* harness) {
  int32_t tokens = 0;
  while (harness->Step()) tokens += PromptTokens(harness->plan);
  return tokens;
}

std::vector<Client*> AddOutputs(SchedulerHarness* harness, int32_t n, const Request& request) {
  std::vector<Client*> clients;
  for (int32_t i = 0; i < n; ++i) {
    Request output = request;
    output.output_index = i;
    clients.push_back(harness->Add(output));
  }
  return clients;
}

// What is left of each page's prompt for every output to compute itself: the rest beyond its whole pages.
int32_t RestsOf(int32_t outputs, int32_t prompt_tokens) {
  return outputs * (prompt_tokens - (prompt_tokens - 1) / kSharedPageTokens * kSharedPageTokens);
}

TEST(SharedPrefill, EightOutputsOfARequestComputeItsPromptOnce) {
  for (const int32_t depth : {1, 2}) {
    for (const int32_t length : {33, 50, 64, 150, 400}) {
      SchedulerHarness harness(SharingOptions(), depth);
      const std::vector<Client*> outputs = AddOutputs(&harness, 8, Ask(Varied(length), 3));
      EXPECT_EQ(RunAll(&harness), length + RestsOf(7, length)) << length << " at depth " << depth;
      for (const Client* client : outputs) SchedulerHarness::ExpectAnswerAsAlone(*client);
      EXPECT_EQ(outputs[7]->info().cached_tokens, (length - 1) / kSharedPageTokens * kSharedPageTokens);
    }
  }
}

TEST(SharedPrefill, RequestsThatComeWhileItsPrefixIsComputedTakeThePagesAsTheyFill) {
  SchedulerHarness harness(SharingOptions());
  Client* leader = harness.Add(Ask(Varied(400), 2));
  harness.Step();
  std::vector<TokenId> longer = Varied(380);
  longer.insert(longer.end(), {9, 9, 9, 1, 2, 3});
  Client* follower = harness.Add(Ask(longer, 2));
  while (leader->sequence->num_computed < 380) {
    harness.Step();
    EXPECT_EQ(harness.Planned(leader) + harness.Planned(follower), 64);
    if (leader->sequence->num_computed < 380) {
      EXPECT_EQ(harness.Planned(follower), 0);
    }
  }
  harness.StepUntilIdle();
  EXPECT_EQ(follower->info().cached_tokens, 380);
  SchedulerHarness::ExpectAnswerAsAlone(*leader);
  SchedulerHarness::ExpectAnswerAsAlone(*follower);
}

TEST(SharedPrefill, AFollowerGoesOnFromWhatWasComputedWhenItsLeaderEnds) {
  for (const int32_t depth : {1, 2}) {
    for (const FinishReason reason : {FinishReason::kCancelled, FinishReason::kDeadline}) {
      SchedulerHarness harness(SharingOptions(), depth);
      Client* leader = harness.Add(Ask(Varied(400), 2));
      Client* follower = harness.Add(Ask(Varied(400), 2));
      int32_t computed = 0;
      for (int step = 0; step < 3; ++step) {
        harness.Step();
        computed += PromptTokens(harness.plan);
      }
      harness.scheduler.End(leader->sequence.get(), reason, harness.now);
      EXPECT_LE(computed + RunAll(&harness), 400 + 64 * depth) << "depth " << depth;
      SchedulerHarness::ExpectAnswerAsAlone(*follower);
    }
  }
}

// The leader of a fault: the pages that it shared hold NaN. Others compute again, once.
TEST(SharedPrefill, AFaultInALeadersPagesReachesNoOtherAnswer) {
  SchedulerHarness harness(SharingOptions());
  Request poisoned = Ask(Varied(200), 2);
  poisoned.sampling.seed = simulation::kPoison | 5;
  Client* leader = harness.Add(poisoned);
  const std::vector<Client*> followers = AddOutputs(&harness, 3, Ask(Varied(200), 5));
  harness.StepUntilIdle();
  EXPECT_EQ(leader->reason(), FinishReason::kNumerical);
  for (const Client* follower : followers) {
    SchedulerHarness::ExpectAnswerAsAlone(*follower);
    EXPECT_LE(follower->info().preemptions, 1);
  }
  Client* later = harness.Add(Ask(Varied(200), 2));
  harness.StepUntilIdle();
  EXPECT_EQ(later->info().cached_tokens, 196);
  SchedulerHarness::ExpectAnswerAsAlone(*later);
}

TEST(SharedPrefill, ADeadlineOrACancelInAPromptLeavesItsPagesForTheRetry) {
  for (const bool deadline : {true, false}) {
    SchedulerHarness harness(SharingOptions());
    Request request = Ask(Varied(400), 2);
    if (deadline) request.deadline = 10;
    Client* first = harness.Add(request);
    for (int step = 0; step < 3; ++step) {
      harness.Launch();
      if (step == 2) harness.now = 10;  // passes in the third step
      harness.Collect();
    }
    if (!deadline) harness.scheduler.End(first->sequence.get(), FinishReason::kCancelled, harness.now);
    harness.StepUntilIdle();
    ASSERT_TRUE(first->ended());
    EXPECT_EQ(harness.scheduler.num_pages_used(), 0);
    request.deadline = kNoDeadline;
    Client* retry = harness.Add(request);
    harness.StepUntilIdle();
    EXPECT_EQ(retry->info().cached_tokens, 192);  // three steps of 64
    SchedulerHarness::ExpectAnswerAsAlone(*retry);
  }
}

TEST(SharedPrefill, NobodyWaitsForLessThanAStepCosts) {
  SchedulerHarness harness(SharingOptions(32));
  Client* a = harness.Add(Ask(Varied(20), 1));
  Client* b = harness.Add(Ask(Varied(20), 1));
  harness.Step();
  EXPECT_EQ(harness.Planned(a), 20);
  EXPECT_EQ(harness.Planned(b), 20);
}

TEST(SharedPrefill, NobodyWaitsForAnotherTenantProfileOrPrompt) {
  SchedulerHarness harness(SharingOptions());
  const Request request = Ask(Varied(12), 1);
  Request tenant = request;
  tenant.cache_salt = "other";
  Request math = request;
  math.profile = kMathBf16;
  Request scored = request;
  scored.sampling.prompt_logprobs = 0;
  std::vector<Client*> clients;
  for (const Request& each : {request, tenant, math, scored, Ask(Varied(12, 3), 1)})
    clients.push_back(harness.Add(each));
  harness.Step();
  for (const Client* client : clients) EXPECT_EQ(harness.Planned(client), 12);
}

TEST(SharedPrefill, AMoreUrgentRequestWaitsForNobody) {
  SchedulerHarness harness(SharingOptions());
  Client* leader = harness.Add(Ask(Varied(400), 1));
  harness.Step();
  Request request = Ask(Varied(400), 1);
  request.priority = 1;
  Client* urgent = harness.Add(request);
  while (!urgent->ended()) {
    harness.Step();
    EXPECT_GE(harness.Planned(urgent), 16);
  }
  EXPECT_FALSE(leader->ended());
  EXPECT_LE(RunAll(&harness), 64);  // what the urgent one computed is the leader's, too
  SchedulerHarness::ExpectAnswerAsAlone(*leader);
}

// First tokens on a device where a step costs `fixed` and a unit for each token.
std::vector<TimeNs> FirstTokens(const std::vector<Request>& requests, int32_t fixed, bool sharing) {
  SchedulerOptions options = SharingOptions(sharing ? fixed : 1 << 30);
  options.max_tokens_per_step = 256;
  SchedulerHarness harness(options);
  std::vector<Client*> clients;
  for (const Request& request : requests) clients.push_back(harness.Add(request));
  for (harness.Launch(); !harness.plan.empty(); harness.Launch()) {
    harness.now += fixed + harness.plan.num_tokens;
    harness.Collect();
  }
  std::vector<TimeNs> times;
  for (const Client* client : clients) times.push_back(client->info().first_token);
  return times;
}

// `count` prompts with a common stem and tails of their own.
std::vector<Request> WithCommonStem(simulation::Dice* dice, int32_t count) {
  const std::vector<TokenId> stem = Varied(dice->Between(0, 500));
  std::vector<Request> requests;
  for (int32_t i = 0; i < count; ++i) {
    std::vector<TokenId> prompt = stem;
    const std::vector<TokenId> tail = Varied(dice->OneIn(3) ? 1 : dice->Between(1, 60), i + 1);
    prompt.insert(prompt.end(), tail.begin(), tail.end());
    requests.push_back(Ask(prompt, 1));
  }
  return requests;
}

TEST(SharedPrefill, WaitingForAnotherIsNoSlowerThanComputingBesideIt) {
  simulation::Dice dice(1);
  for (int seed = 0; seed < 300; ++seed) {
    const int32_t fixed = dice.Between(8, 40);
    const std::vector<Request> requests = WithCommonStem(&dice, 2);
    const std::vector<TimeNs> shared = FirstTokens(requests, fixed, true);
    const std::vector<TimeNs> alone = FirstTokens(requests, fixed, false);
    for (size_t i = 0; i < requests.size(); ++i) EXPECT_LE(shared[i], alone[i] + fixed) << seed << " " << i;
  }
}

// Of many, one that would have computed beside the leader shares its step with the others now; all together are sooner.
TEST(SharedPrefill, ManyAreSoonerTogether) {
  simulation::Dice dice(1);
  int64_t shared_total = 0;
  int64_t alone_total = 0;
  for (int seed = 0; seed < 100; ++seed) {
    const int32_t fixed = dice.Between(8, 40);
    const std::vector<Request> requests = WithCommonStem(&dice, dice.Between(3, 8));
    const std::vector<TimeNs> shared = FirstTokens(requests, fixed, true);
    const std::vector<TimeNs> alone = FirstTokens(requests, fixed, false);
    EXPECT_LE(*std::max_element(shared.begin(), shared.end()), *std::max_element(alone.begin(), alone.end()) + fixed);
    shared_total += std::accumulate(shared.begin(), shared.end(), int64_t{0});
    alone_total += std::accumulate(alone.begin(), alone.end(), int64_t{0});
  }
  EXPECT_LT(shared_total, alone_total * 95 / 100) << "alone " << alone_total;
}

}  // namespace
}  // namespace dunlin::engine
