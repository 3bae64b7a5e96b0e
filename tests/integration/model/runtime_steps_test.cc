// ModelRuntime by hand, without a scheduler: masks, head blocks, refusals at start.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/runtime/model_runtime.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

class RuntimeStepsTest : public ::testing::Test {
 protected:
  // One step over a whole prompt that draws the next token.
  StepResult Step(ModelRuntime* runtime, Sequence* sequence, const uint32_t* allowed_tokens) {
    sequence->prompt_len = sequence->num_tokens();
    for (PageId page = 0; page < 30; ++page) sequence->pages.push_back(page);
    StepPlan plan;
    plan.sub_batches.push_back({sequence->request.profile, 0, 1, sequence->num_tokens()});
    plan.sequences.push_back({sequence, 0, sequence->num_tokens(), true, allowed_tokens});
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
  std::vector<uint32_t> allowed(17, 0);
  allowed[12] = 1U << 7;  // token 391
  Sequence sequence;
  sequence.tokens = {1, 2, 3};
  EXPECT_EQ(Step(runtime.get(), &sequence, allowed.data()).outputs[0].token.token_id, 391);
}

TEST_F(RuntimeStepsTest, ScoresMoreRowsThanOneHeadBlock) {
  const auto runtime = *ModelRuntime::Create(test_.model.get(), options_);
  Sequence sequence;
  for (TokenId i = 0; i < 2 * kHeadBlockRows + 3; ++i) sequence.tokens.push_back(i * 3 % 500);
  sequence.request.sampling.prompt_logprobs = 1;
  const StepResult result = Step(runtime.get(), &sequence, nullptr);
  EXPECT_TRUE(result.outputs[0].sampled);
  ASSERT_EQ(result.prompt_scores.size(), sequence.tokens.size() - 1);
  for (size_t i = 0; i < result.prompt_scores.size(); ++i) {
    EXPECT_EQ(result.prompt_scores[i].position, static_cast<int32_t>(i) + 1);
    EXPECT_EQ(result.prompt_scores[i].token.token_id, sequence.tokens[i + 1]);
    EXPECT_LE(result.prompt_scores[i].token.logprob, result.prompt_scores[i].token.top[0].logprob);
  }
}

// The last layer goes on with the head's rows, of which there may be several blocks, or with all: a row has the same
// bits.
TEST_F(RuntimeStepsTest, ARowOfTheHeadHasTheSameBitsAloneAndAmongAllRows) {
  constexpr int32_t kTokens = 150;
  const auto run = [&](int32_t scored_prompt) {
    const auto runtime = *ModelRuntime::Create(test_.model.get(), options_);
    Sequence sequence;
    for (TokenId i = 0; i < kTokens; ++i) sequence.tokens.push_back(i * 7 % 500);
    sequence.request.sampling.prompt_logprobs = 3;
    sequence.scored_prompt = scored_prompt;
    sequence.request.sampling.logprobs = 3;
    return Step(runtime.get(), &sequence, nullptr);
  };
  const StepResult every = run(0);
  ASSERT_EQ(every.prompt_scores.size(), size_t{kTokens - 1});
  for (const int32_t scored : {1, 3, 60, kHeadBlockRows + 36}) {
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

TEST_F(RuntimeStepsTest, KnowsThePagesOfResidentPrecisionsAlone) {
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

TEST_F(RuntimeStepsTest, RefusesMemoryThatTheMachineDoesNotHave) {
  options_.kv_memory_bytes = size_t{1} << 46;
  const absl::Status status = ModelRuntime::Create(test_.model.get(), options_).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("models[].kv_cache.memory_bytes"));
}

}  // namespace
}  // namespace dunlin::engine
