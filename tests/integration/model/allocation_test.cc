// SPDX-License-Identifier: Apache-2.0
// No allocation after READY: neither by a step of the runtime, nor by the engine's and the device's threads while they
// serve. Only the submitting thread allocates: a request brings its own memory.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include "engine/layers/embedding.h"
#include "engine/plan/sequence_view.h"
#include "tests/integration/model/allocation_counter.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"
#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

using Threads = AllocationCounter::Threads;

// As many tokens are banned, and as many are allowed, as a request may name; one may always be drawn.
void SetMostBans(Request* request) {
  SamplingParams& sampling = request->sampling;
  for (TokenId id = 1; id < 60; ++id) sampling.allowed_token_ids.push_back(id);
  sampling.allowed_token_ids.resize(kMaxAllowedTokenIds, 59);
  sampling.suppressed_token_ids.assign(kMaxSuppressedTokenIds, 1);
  sampling.begin_suppressed_token_ids.assign(kMaxSuppressedTokenIds, 2);
  sampling.bad_words.assign(kMaxBadWords, {3});
}

class AllocationTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!AllocationCounterWorks()) GTEST_SKIP() << "a sanitizer owns malloc";
  }
  TestModel test_ = LoadTestModel(GoldenModelPath(GetParam()), "", 2, kAllPrecisions);
};

TEST_P(AllocationTest, TheCounterSeesAllocations) {
  const AllocationCounter counter(Threads::kAll);
  const auto memory = std::make_unique<std::vector<int>>(100);
  EXPECT_EQ(counter.count(), 2);
}

TEST_P(AllocationTest, LaunchAndCollectAllocateNothing) {
  EngineOptions options;
  const auto runtime = *ModelRuntime::Create(test_.model.get(), options);
  StepResult result;
  result.Reserve(options.max_sequences, options.max_tokens_per_step);
  std::vector<PageId> pages(20);
  std::iota(pages.begin(), pages.end(), 0);
  RequestMix mix(5);
  for (const ExecutionProfile& profile : AllCpuProfiles()) {
    Request request = mix.DrawRequest(test_.model->config(), profile);
    request.sampling.prompt_logprobs = 5;
    request.sampling.frequency_penalty = 1.0F;
    request.sampling.top_p = 0.9F;
    request.sampling.temperature = 1.0F;
    const auto prompt_len = static_cast<int32_t>(request.prompt.size());
    TokenCounts counts;
    counts.Start(request.prompt, 1);
    StepPlan plan;
    AppendSequence(profile,
                   {.tokens = request.prompt,
                    .prompt_len = prompt_len,
                    .pages = pages,
                    .sampling = request.sampling,
                    .stopping = request.stopping,
                    .counts = counts.list()},
                   {.num_tokens = prompt_len, .samples = true}, &plan);

    const AllocationCounter counter(Threads::kAll);
    const absl::StatusOr<StepHandle> handle = runtime->Launch(plan);
    ASSERT_TRUE(handle.ok());
    ASSERT_TRUE(runtime->Collect(*handle, &result).ok());
    EXPECT_EQ(counter.count(), 0) << kernels::Name(profile.attention_backend) << kernels::Name(profile.precision);
    EXPECT_TRUE(result.outputs[0].sampled);
    EXPECT_EQ(static_cast<int32_t>(result.prompt_scores.size()), prompt_len - 1);
  }
}

// Every other token of a whole step is a row, which no neighbour joins.
TEST_P(AllocationTest, AStepOfAsManyRunsOfRowsAsThereCanBeAllocatesNothing) {
  const ModelConfig& config = test_.model->config();
  if (config.embedding.learned_positions) {  // such a model takes none
    EXPECT_FALSE(TakesRows(config, 1));
    return;
  }
  EngineOptions options;
  options.max_tokens_per_step = 64;
  const auto runtime = *ModelRuntime::Create(test_.model.get(), options);
  StepResult result;
  result.Reserve(options.max_sequences, options.max_tokens_per_step);
  std::vector<PageId> pages(20);
  std::iota(pages.begin(), pages.end(), 0);
  std::vector<TokenId> prompt(64, 5);
  PromptRows rows;
  rows.columns = config.hidden_dim;
  for (int32_t i = 0; i < 64; i += 2) {
    rows.spans.push_back({.first = i, .count = 1, .image_columns = config.rotary.axes.empty() ? 0 : 1});
    prompt[static_cast<size_t>(i)] = kFirstRowToken + i;
  }
  rows.values.assign(rows.spans.size() * static_cast<size_t>(rows.columns), 0.01F);
  StepPlan plan;
  AppendSequence({},
                 {.tokens = prompt, .prompt_len = 64, .rows = &rows, .pages = pages, .sampling = {}, .stopping = {}},
                 {.num_tokens = 64, .samples = true}, &plan);
  const AllocationCounter counter(Threads::kAll);
  const absl::StatusOr<StepHandle> handle = runtime->Launch(plan);
  ASSERT_TRUE(handle.ok());
  ASSERT_TRUE(runtime->Collect(*handle, &result).ok());
  EXPECT_EQ(counter.count(), 0);
  EXPECT_TRUE(result.outputs[0].sampled);
}

TEST_P(AllocationTest, ServingAllocatesOnTheSubmittingThreadOnly) {
  RequestMix mix(6);
  EngineOptions options;
  options.max_tokens_per_step = 40;
  options.max_sequences = 6;
  options.kv_memory_bytes = 26 * KvLayoutOf(test_.model->config(), Precision::kFp32).page_bytes;
  EngineClient client(test_.model.get(), options);
  // A grammar's state allocates on the thread that computes its masks; this one's does not.
  const auto constraint = simulation::ScriptedConstraint::Chain({{{1, 2, 3}}, {{4}}, {{5}}, {{6, 7}}}, {});
  const AllocationCounter counter(Threads::kAllButThis);
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (int round = 0; round < 8; ++round) {
    for (const ExecutionProfile& profile : AllCpuProfiles()) {
      Request request = mix.DrawRequest(test_.model->config(), profile);
      if (round % 2 == 0) SetMostBans(&request);
      if (round % 4 == 1) request.constraint = constraint;
      sinks.push_back(client.Submit(request));
    }
  }
  for (const auto& sink : sinks) sink->Wait();
  EXPECT_EQ(counter.count(), 0);
  EXPECT_GT(client.engine().stats().preemptions, 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, AllocationTest, ::testing::Values("gpt2_tiny", "llama_gqa", "qwen3_vl_tiny"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
