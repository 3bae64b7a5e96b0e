// SPDX-License-Identifier: Apache-2.0
// Every field of a request, one bad value at a time, with the whole message.
#include "engine/loop/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>
#include <string>

#include "engine/request/draw_params.h"

namespace dunlin::engine {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int32_t kMax = std::numeric_limits<int32_t>::max();
constexpr int32_t kMin = std::numeric_limits<int32_t>::min();

RequestLimits Limits() {
  RequestLimits limits;
  limits.vocab_size = 100;
  limits.max_context_tokens = 64;
  limits.max_queued_tokens = 1000;
  limits.num_pages = 12;
  limits.tokens_per_page = {2, 16, 0, 16};  // no FP16
  return limits;
}

Request Good() {
  Request request;
  request.prompt = {1, 2, 3, 99};
  return request;
}

struct Case {
  std::function<void(Request*)> spoil;
  const char* message;
};

void ExpectRefusals(const std::vector<Case>& cases) {
  for (const Case& bad : cases) {
    Request request = Good();
    bad.spoil(&request);
    const absl::Status status = ValidateRequest(request, Limits());
    EXPECT_TRUE(absl::IsInvalidArgument(status)) << bad.message;
    EXPECT_EQ(std::string(status.message()), bad.message);
  }
}

TEST(DrawParams, TheTableHasEachOnce) {
  std::set<std::string> names;
  for (const DrawParamTraits& row : kDrawParamTable) EXPECT_TRUE(names.insert(row.name()).second) << row.name();
  EXPECT_EQ(kNumDrawParams * sizeof(float), sizeof(kernels::DrawParams)) << "a member without a row";
}

TEST(DrawParams, OnlyWhatAClientGivesReplacesTheModelsDefaults) {
  kernels::DrawParams params;
  params.min_p = 0.5F;
  DrawParamOverrides overrides;
  overrides.top_k = 7;
  overrides.temperature = 0.0F;
  Apply(overrides, &params);
  EXPECT_EQ(params.min_p, 0.5F);
  EXPECT_EQ(params.top_p, 1.0F);
  EXPECT_EQ(params.top_k, 7);
  EXPECT_EQ(params.temperature, 0.0F);
}

TEST(Validate, AcceptsTheDefaultsAndTheEdgesOfEveryRange) {
  EXPECT_TRUE(ValidateRequest(Good(), Limits()).ok());
  Request request = Good();
  request.sampling.temperature = 100;
  request.sampling.top_p = std::numeric_limits<float>::min();
  request.sampling.min_p = 1;
  request.sampling.repetition_penalty = 10;
  request.sampling.presence_penalty = -2;
  request.sampling.frequency_penalty = 2;
  request.sampling.top_k = kMax;
  request.sampling.logprobs = kMaxTopLogprobs;
  request.sampling.prompt_logprobs = 0;
  request.sampling.logit_bias = {{0, -100.0F}, {99, 100.0F}};
  request.stopping.max_tokens = 60;
  request.stopping.min_tokens = 60;
  request.stopping.stop_token_ids.assign(kMaxStopTokenIds, 99);
  request.cache_salt = std::string(128, 's');
  request.priority = -100;
  EXPECT_TRUE(ValidateRequest(request, Limits()).ok()) << ValidateRequest(request, Limits());
}

TEST(Validate, NamesABadPrompt) {
  ExpectRefusals({
      {[](Request* r) { r->prompt.clear(); }, "prompt has 0 tokens; limit is 1 or more"},
      {[](Request* r) { r->prompt.assign(65, 1); },
       "prompt has 65 tokens; limit is 63, one less than the context (models[].max_context_tokens)"},
      {[](Request* r) { r->prompt[3] = 100; }, "prompt[3] is 100; limit is [0, 100)"},
      {[](Request* r) { r->prompt[0] = -1; }, "prompt[0] is -1; limit is [0, 100)"},
      {[](Request* r) { r->prompt[1] = kMin; }, "prompt[1] is -2147483648; limit is [0, 100)"},
      {[](Request* r) { r->prompt[2] = kMax; }, "prompt[2] is 2147483647; limit is [0, 100)"},
  });
}

TEST(Validate, NamesBadSampling) {
  ExpectRefusals({
      {[](Request* r) { r->sampling.temperature = kNan; }, "temperature is nan; limit is [0, 100]"},
      {[](Request* r) { r->sampling.temperature = -0.5F; }, "temperature is -0.5; limit is [0, 100]"},
      {[](Request* r) { r->sampling.temperature = kInf; }, "temperature is inf; limit is [0, 100]"},
      {[](Request* r) { r->sampling.top_p = 1.5F; }, "top_p is 1.5; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = 0; }, "top_p is 0; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = std::numeric_limits<float>::denorm_min(); },
       "top_p is 1.4013e-45; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = -0.0F; }, "top_p is -0; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = kNan; }, "top_p is nan; limit is (0, 1]"},
      {[](Request* r) { r->sampling.min_p = 1.25F; }, "min_p is 1.25; limit is [0, 1]"},
      {[](Request* r) { r->sampling.min_p = kNan; }, "min_p is nan; limit is [0, 1]"},
      {[](Request* r) { r->sampling.repetition_penalty = 0; }, "repetition_penalty is 0; limit is (0, 10]"},
      {[](Request* r) { r->sampling.presence_penalty = -kInf; }, "presence_penalty is -inf; limit is [-2, 2]"},
      {[](Request* r) { r->sampling.frequency_penalty = 3; }, "frequency_penalty is 3; limit is [-2, 2]"},
      {[](Request* r) { r->sampling.top_k = -1; }, "top_k is -1; limit is [0, 2147483647]"},
      {[](Request* r) { r->sampling.logprobs = 21; }, "logprobs is 21; limit is [0, 20]"},
      {[](Request* r) { r->sampling.logprobs = -2; }, "logprobs is -2; limit is [0, 20]"},
      {[](Request* r) { r->sampling.prompt_logprobs = kMax; }, "prompt_logprobs is 2147483647; limit is [0, 20]"},
      {[](Request* r) {
         r->sampling.logit_bias = {{100, 1.0F}};
       },
       "logit_bias key is 100; limit is [0, 100)"},
      {[](Request* r) {
         r->sampling.logit_bias = {{7, 100.5F}};
       },
       "logit_bias[7] is 100.5; limit is [-100, 100]"},
      {[](Request* r) {
         r->sampling.logit_bias = {{7, kNan}};
       },
       "logit_bias[7] is nan; limit is [-100, 100]"},
      {[](Request* r) {
         r->sampling.logit_bias.assign(1025, {1, 0.0F});
       },
       "logit_bias has 1025 entries; limit is 1024"},
  });
}

TEST(Validate, NamesBadStopping) {
  ExpectRefusals({
      {[](Request* r) { r->stopping.max_tokens = 0; }, "max_tokens is 0; limit is [1, 64]"},
      {[](Request* r) { r->stopping.max_tokens = kMin; }, "max_tokens is -2147483648; limit is [1, 64]"},
      {[](Request* r) { r->stopping.max_tokens = kMax; }, "max_tokens is 2147483647; limit is [1, 64]"},
      {[](Request* r) { r->stopping.max_tokens = 61; },
       "max_tokens is 61 after a prompt of 4; limit is 60 (models[].max_context_tokens is 64)"},
      {[](Request* r) { r->stopping.min_tokens = -1; }, "min_tokens is -1; limit is [0, 16]"},
      {[](Request* r) { r->stopping.min_tokens = 17; }, "min_tokens is 17; limit is [0, 16]"},
      {[](Request* r) {
         r->stopping.stop_token_ids = {1, -1};
       },
       "stop_token_ids[1] is -1; limit is [0, 100)"},
      {[](Request* r) { r->stopping.stop_token_ids = {100}; }, "stop_token_ids[0] is 100; limit is [0, 100)"},
      {[](Request* r) { r->stopping.stop_token_ids.assign(65, 1); }, "stop_token_ids has 65 entries; limit is 64"},
  });
}

TEST(Validate, NamesTheRest) {
  ExpectRefusals({
      {[](Request* r) { r->cache_salt = std::string(129, 's'); }, "cache_salt has 129 bytes; limit is 0 to 128"},
      {[](Request* r) { r->priority = 101; }, "priority is 101; limit is [-100, 100]"},
      {[](Request* r) { r->profile.precision = Precision::kFp16; },
       "precision is fp16; limit is the precisions of the model (models[].precisions)"},
  });
}

TEST(Validate, RefusesWhatCouldNeverFitThePool) {
  Request request = Good();
  request.profile.precision = Precision::kFp32;  // 2 tokens a page
  request.stopping.max_tokens = 21;              // the last one drawn needs no page: 4 + 21 - 1 = 24
  EXPECT_TRUE(ValidateRequest(request, Limits()).ok());
  request.stopping.max_tokens = 22;
  EXPECT_EQ(
      std::string(ValidateRequest(request, Limits()).message()),
      "max_tokens is 22 after a prompt of 4: that takes 13 KV pages; limit is 12 (models[].kv_cache.memory_bytes)");
}

TEST(Validate, NamesThePromptWhereItAloneFillsThePool) {
  RequestLimits limits = Limits();
  limits.num_pages = 1;
  Request request = Good();
  request.profile.precision = Precision::kFp32;  // 2 tokens a page
  request.stopping.max_tokens = 1;
  EXPECT_EQ(std::string(ValidateRequest(request, limits).message()),
            "prompt has 4 tokens: that takes 2 KV pages; limit is 1 (models[].kv_cache.memory_bytes)");
}

TEST(Validate, LeavesRoomByContextAndPool) {
  RequestLimits limits = Limits();  // a context of 64 tokens, 12 pages
  EXPECT_EQ(OutputRoom(4, Precision::kFp32, limits), 21) << "24 tokens in pages, and the last one drawn";
  limits.num_pages = 1000;
  EXPECT_EQ(OutputRoom(4, Precision::kFp32, limits), 60);
  EXPECT_EQ(OutputRoom(64, Precision::kFp32, limits), 0);
}

TEST(Validate, CountsAPromptThatIsTooLongUpToTwiceTheLimit) {
  RequestLimits limits = Limits();
  EXPECT_EQ(MaxCountedPromptTokens(limits), 126U);
  const Violation of_context = PromptTooLong(limits);
  EXPECT_EQ(Describe(of_context, kPlainFieldNames),
            "prompt has more than 126 tokens; limit is 63, one less than the context (models[].max_context_tokens)");
  limits.max_queued_tokens = 50;
  EXPECT_EQ(Describe(PromptTooLong(limits), kPlainFieldNames),
            "prompt has more than 100 tokens; limit is 50 (scheduler.max_queued_tokens)");
}

TEST(Validate, HoldsThePriorityAgainstTheModelsOwnRange) {
  RequestLimits limits = Limits();
  limits.min_priority = -5;
  limits.max_priority = 0;
  Request request = Good();
  for (const int32_t allowed : {-5, 0}) {
    request.priority = allowed;
    EXPECT_TRUE(ValidateRequest(request, limits).ok());
  }
  request.priority = 1;
  EXPECT_EQ(std::string(ValidateRequest(request, limits).message()),
            "priority is 1; limit is [-5, 0] (models[].allowed.min_priority, models[].allowed.max_priority)");
}

TEST(Validate, RefusesAPromptThatCouldNeverBeQueued) {
  RequestLimits limits = Limits();
  limits.max_queued_tokens = 3;
  EXPECT_EQ(std::string(ValidateRequest(Good(), limits).message()),
            "prompt has 4 tokens; limit is 3 (scheduler.max_queued_tokens)");
}

TEST(KvBlocks, AreThoseThatFitWhateverTheLengths) {
  RequestLimits limits = Limits();
  limits.num_pages = 100;
  limits.max_context_tokens = 10000;
  EXPECT_EQ(KvBlocks(limits, kernels::Precision::kFp32), 100);
  EXPECT_EQ(KvBlocks(limits, kernels::Precision::kBf16), 100);
  limits.kv_groups = {.layers_per_page = 1, .num_full = 1, .num_sliding = 3, .window = 2000};
  EXPECT_EQ(KvBlocks(limits, kernels::Precision::kBf16), 25) << "a page of each group";
}

// One full group and three that hold 2 blocks of 16 tokens for a window of 17 and a step of 1: 90 blocks take 96 pages.
TEST(KvBlocks, AreNoFewerThanTheLongestRequestTakes) {
  RequestLimits limits = Limits();
  limits.num_pages = 96;
  limits.max_context_tokens = 10000;
  limits.kv_groups = {.layers_per_page = 1, .num_full = 1, .num_sliding = 3, .window = 17};
  EXPECT_EQ(limits.kv_groups.MostPages(90 * 16, 16, 1), 96);
  EXPECT_EQ(KvBlocks(limits, kernels::Precision::kBf16), 90);
  limits.max_context_tokens = 40 * 16;
  EXPECT_EQ(KvBlocks(limits, kernels::Precision::kBf16), 40);
  limits.kv_groups = {.layers_per_page = 1, .num_full = 0, .num_sliding = 1, .window = 17};
  EXPECT_EQ(KvBlocks(limits, kernels::Precision::kBf16), 96) << "two contexts of 40 blocks fit, and more";
}

}  // namespace
}  // namespace dunlin::engine
