// SPDX-License-Identifier: Apache-2.0
// A prompt of 100000 tokens beside sequences that decode, on a device that slows down with the context: the time target
// of a step bounds how long their tokens stay away, and the prompt goes on in every step.
#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "tests/engine/scheduler/scheduler_harness.h"

namespace dunlin::simulation {
namespace {

using engine::Ask;
using engine::Client;
using engine::Prompt;
using engine::SchedulerHarness;
using engine::TimeNs;

constexpr TimeNs kMillisecond = 1'000'000;
constexpr TimeNs kTarget = 200 * kMillisecond;
constexpr int32_t kPromptTokens = 100000;
constexpr int32_t kTokensPerPage = 4;

// 10 ms, 0.4 ms a prompt token and as much for each 8000 tokens that it attends to; decodes likewise, five times as
// long.
TimeNs LongPromptTime(const engine::StepPlan& plan) {
  double ns = 10.0 * kMillisecond;
  for (const engine::SequenceStep& step : plan.sequences) {
    const double context = step.first_position + 0.5 * step.num_tokens;
    const double token = 0.4 * kMillisecond * (1.0 + context / 8000.0);
    ns += token * step.num_tokens * (step.first_position < step.prompt_len ? 1.0 : 5.0);
  }
  return static_cast<TimeNs>(ns);
}

struct Result {
  TimeNs longest_gap = 0;                 // between two tokens of a reader
  TimeNs longest_wait = 0;                // of a reader for its first token
  int32_t fewest_tokens = kPromptTokens;  // of the prompt in a step
  int64_t steps = 0;
};

Result RunWith(TimeNs target) {
  engine::SchedulerOptions options = SchedulerHarness::Defaults();
  options.max_tokens_per_step = 512;
  options.max_sequences = 8;
  options.max_live = 5000;
  options.cache.num_pages = kPromptTokens / kTokensPerPage + 2000;
  options.step_time_target = target;
  SchedulerHarness harness(options);
  struct Reader {
    Client* client = nullptr;
    size_t tokens = 0;
    TimeNs last = 0;  // when it had so many, or came
  };
  std::vector<Reader> readers(4);
  Result result;
  const auto step = [&] {
    harness.LaunchUnchecked();
    harness.now += LongPromptTime(harness.plan);
    harness.CollectUnchecked();
    for (Reader& reader : readers) {
      const size_t tokens = reader.client->sink->tokens.size();
      if (tokens == reader.tokens) continue;
      TimeNs* longest = reader.tokens > 0 ? &result.longest_gap : &result.longest_wait;
      *longest = std::max(*longest, harness.now - reader.last);
      reader.tokens = tokens;
      reader.last = harness.now;
    }
  };
  int32_t added = 0;
  const auto refill = [&] {
    for (Reader& reader : readers) {
      if (reader.client != nullptr && !reader.client->ended()) continue;
      ++added;
      reader = {harness.Add(Ask(Prompt(40, added % 49 + 1), 150 + added * 37 % 200)), 0, harness.now};
    }
  };
  for (int i = 0; i < 10; ++i) {
    refill();
    step();
  }
  const Client* prompt = harness.Add(Ask(Prompt(kPromptTokens), 1));
  while (!prompt->ended()) {
    refill();
    const bool last = prompt->sequence->num_uncomputed() < kTokensPerPage;
    step();
    if (!last) result.fewest_tokens = std::min(result.fewest_tokens, harness.Planned(prompt));
    ++result.steps;
  }
  return result;
}

TEST(StepTime, StaysNearItsTargetWhileALongPromptGoesOnInEveryStep) {
  const Result with_target = RunWith(kTarget);
  EXPECT_LE(with_target.longest_gap, 2 * kTarget);
  EXPECT_LE(with_target.longest_wait, 2 * kTarget);
  EXPECT_GE(with_target.fewest_tokens, kTokensPerPage);
  EXPECT_LE(with_target.steps, kPromptTokens / kTokensPerPage);
  const Result without = RunWith(0);  // the budget alone: what the target is for
  EXPECT_GT(without.longest_gap, 3 * kTarget);
}

}  // namespace
}  // namespace dunlin::simulation
