// SPDX-License-Identifier: Apache-2.0
// ModelRuntime by hand, without a scheduler: masks, head blocks, refusals at start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/plan/sequence_view.h"
#include "engine/runtime/model_runtime.h"
#include "tests/engine/sampling/fixed_mask.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

class RuntimeStepsTest : public ::testing::Test {
 protected:
  struct Prompt {
    std::vector<TokenId> tokens;
    SamplingParams sampling;
    int32_t next_scored_position = 1;
    std::vector<uint32_t> allowed_tokens;
  };

  // One step over a whole prompt that draws the next token.
  StepResult Step(ModelRuntime* runtime, const Prompt& prompt) {
    std::vector<PageId> pages(30);
    std::iota(pages.begin(), pages.end(), 0);
    const auto num_tokens = static_cast<int32_t>(prompt.tokens.size());
    StepPlan plan;
    AppendSequence({},
                   {.tokens = prompt.tokens,
                    .prompt_len = num_tokens,
                    .pages = pages,
                    .sampling = prompt.sampling,
                    .stopping = {},
                    .next_scored_position = prompt.next_scored_position,
                    .constrained = OutputWithMask(prompt.allowed_tokens)},
                   {.num_tokens = num_tokens, .samples = true}, &plan);
    const absl::StatusOr<StepHandle> handle = runtime->Launch(plan);
    EXPECT_TRUE(handle.ok()) << handle.status();
    StepResult result;
    EXPECT_TRUE(runtime->Collect(*handle, &result).ok());
    return result;
  }

  TestModel test_ = LoadTestModel(GoldenModelPath("gpt2_tiny"), "", 2, {Precision::kBf16});
  EngineOptions options_;
};

TEST_F(RuntimeStepsTest, DrawsOnlyTokensThatTheStepAllows) {
  const auto runtime = *ModelRuntime::Create(test_.model.get(), options_);
  Prompt prompt;
  prompt.tokens = {1, 2, 3};
  prompt.allowed_tokens.resize(17);
  prompt.allowed_tokens[12] = 1U << 7;  // token 391
  EXPECT_EQ(Step(runtime.get(), prompt).outputs[0].token.token_id, 391);
}

TEST_F(RuntimeStepsTest, ScoresMoreRowsThanOneHeadBlock) {
  const auto runtime = *ModelRuntime::Create(test_.model.get(), options_);
  Prompt prompt;
  for (TokenId i = 0; i < 2 * kMaxLogitRows + 3; ++i) prompt.tokens.push_back(i * 3 % 500);
  prompt.sampling.prompt_logprobs = 1;
  const StepResult result = Step(runtime.get(), prompt);
  EXPECT_TRUE(result.outputs[0].sampled);
  ASSERT_EQ(result.prompt_scores.size(), prompt.tokens.size() - 1);
  for (size_t i = 0; i < result.prompt_scores.size(); ++i) {
    EXPECT_EQ(result.prompt_scores[i].position, static_cast<int32_t>(i) + 1);
    EXPECT_EQ(result.prompt_scores[i].token.token_id, prompt.tokens[i + 1]);
    EXPECT_LE(result.prompt_scores[i].token.logprob, result.prompt_scores[i].token.top[0].logprob);
  }
}

// The last layer goes on with the head's rows, of which there may be several blocks, or with all: a row has the same
// bits.
TEST_F(RuntimeStepsTest, AHeadRowHasTheSameBitsAloneAndAmongAllRows) {
  constexpr int32_t kTokens = 150;
  const auto run = [&](int32_t next_scored_position) {
    const auto runtime = *ModelRuntime::Create(test_.model.get(), options_);
    Prompt prompt;
    for (TokenId i = 0; i < kTokens; ++i) prompt.tokens.push_back(i * 7 % 500);
    prompt.sampling.prompt_logprobs = 3;
    prompt.next_scored_position = next_scored_position;
    prompt.sampling.logprobs = 3;
    return Step(runtime.get(), prompt);
  };
  const StepResult every = run(0);
  ASSERT_EQ(every.prompt_scores.size(), size_t{kTokens - 1});
  for (const int32_t scored : {1, 3, 60, kMaxLogitRows + 36}) {
    const StepResult few = run(kTokens - scored);
    ASSERT_EQ(few.prompt_scores.size(), static_cast<size_t>(scored));
    const auto same = [](const TokenOutput& one, const TokenOutput& other) {
      EXPECT_EQ(one.token_id, other.token_id);
      EXPECT_EQ(one.logprob, other.logprob);
      ASSERT_EQ(one.top.size(), other.top.size());
      for (size_t i = 0; i < one.top.size(); ++i) EXPECT_EQ(one.top[i].logprob, other.top[i].logprob);
    };
    same(few.outputs[0].token, every.outputs[0].token);
    const size_t skipped = every.prompt_scores.size() - few.prompt_scores.size();
    for (size_t i = 0; i < few.prompt_scores.size(); ++i) {
      same(few.prompt_scores[i].token, every.prompt_scores[skipped + i].token);
    }
  }
}

TEST_F(RuntimeStepsTest, KnowsThePagesOfResidentPrecisionsOnly) {
  options_.kv_memory_bytes = 10 * KvLayoutOf(test_.model->config(), Precision::kBf16).page_bytes + 1;
  const auto runtime = *ModelRuntime::Create(test_.model.get(), options_);
  EXPECT_EQ(runtime->num_pages(), 10);
  EXPECT_EQ(runtime->tokens_per_page(Precision::kBf16), 16);
  EXPECT_EQ(runtime->tokens_per_page(Precision::kFp32), 0);
}

TEST_F(RuntimeStepsTest, RefusesMemoryThatHoldsNoPage) {
  options_.kv_memory_bytes = 100;
  const absl::Status status = ModelRuntime::Create(test_.model.get(), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("models[].kv_cache.memory_bytes"));
}

TEST_F(RuntimeStepsTest, RefusesMoreMemoryThanTheMachineHas) {
  options_.kv_memory_bytes = size_t{1} << 46;
  const absl::Status status = ModelRuntime::Create(test_.model.get(), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("models[].kv_cache.memory_bytes"));
}

}  // namespace
}  // namespace dunlin::engine
