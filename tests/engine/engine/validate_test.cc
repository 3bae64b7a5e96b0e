// Every field of a request, one bad value at a time, with the whole message.
#include "engine/validate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

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

TEST(Validate, AcceptsTheDefaultsAndTheEdgesOfEveryRange) {
  EXPECT_TRUE(ValidateRequest(Good(), Limits()).ok());
  Request request = Good();
  request.sampling.temperature = 100;
  request.sampling.top_p = std::numeric_limits<float>::denorm_min();
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
  request.output_index = 7;
  EXPECT_TRUE(ValidateRequest(request, Limits()).ok()) << ValidateRequest(request, Limits());
}

TEST(Validate, NamesABadPrompt) {
  ExpectRefusals({
      {[](Request* r) { r->prompt.clear(); }, "prompt has 0 tokens; at least 1 is needed"},
      {[](Request* r) { r->prompt.assign(65, 1); }, "prompt has 65 tokens; limit is 64 (models[].max_context_tokens)"},
      {[](Request* r) { r->prompt[3] = 100; }, "prompt.token_ids[3] is 100; limit is [0, 99]"},
      {[](Request* r) { r->prompt[0] = -1; }, "prompt.token_ids[0] is -1; limit is [0, 99]"},
      {[](Request* r) { r->prompt[1] = kMin; }, "prompt.token_ids[1] is -2147483648; limit is [0, 99]"},
      {[](Request* r) { r->prompt[2] = kMax; }, "prompt.token_ids[2] is 2147483647; limit is [0, 99]"},
  });
}

TEST(Validate, NamesBadSampling) {
  ExpectRefusals({
      {[](Request* r) { r->sampling.temperature = kNan; }, "sampling.temperature is nan; limit is [0, 100]"},
      {[](Request* r) { r->sampling.temperature = -0.5F; }, "sampling.temperature is -0.5; limit is [0, 100]"},
      {[](Request* r) { r->sampling.temperature = kInf; }, "sampling.temperature is inf; limit is [0, 100]"},
      {[](Request* r) { r->sampling.top_p = 1.5F; }, "sampling.top_p is 1.5; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = 0; }, "sampling.top_p is 0; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = -0.0F; }, "sampling.top_p is -0; limit is (0, 1]"},
      {[](Request* r) { r->sampling.top_p = kNan; }, "sampling.top_p is nan; limit is (0, 1]"},
      {[](Request* r) { r->sampling.min_p = 1.25F; }, "sampling.min_p is 1.25; limit is [0, 1]"},
      {[](Request* r) { r->sampling.min_p = kNan; }, "sampling.min_p is nan; limit is [0, 1]"},
      {[](Request* r) { r->sampling.repetition_penalty = 0; }, "sampling.repetition_penalty is 0; limit is (0, 10]"},
      {[](Request* r) { r->sampling.presence_penalty = -kInf; }, "sampling.presence_penalty is -inf; limit is [-2, 2]"},
      {[](Request* r) { r->sampling.frequency_penalty = 3; }, "sampling.frequency_penalty is 3; limit is [-2, 2]"},
      {[](Request* r) { r->sampling.top_k = -1; }, "sampling.top_k is -1; limit is >= 0"},
      {[](Request* r) { r->sampling.logprobs = 21; }, "output.logprobs is 21; limit is [0, 20]"},
      {[](Request* r) { r->sampling.logprobs = -2; }, "output.logprobs is -2; limit is [0, 20]"},
      {[](Request* r) { r->sampling.prompt_logprobs = kMax; },
       "output.prompt_logprobs is 2147483647; limit is [0, 20]"},
      {[](Request* r) {
         r->sampling.logit_bias = {{100, 1.0F}};
       },
       "sampling.logit_bias has token id 100; limit is [0, 99]"},
      {[](Request* r) {
         r->sampling.logit_bias = {{7, 100.5F}};
       },
       "sampling.logit_bias[7] is 100.5; limit is [-100, 100]"},
      {[](Request* r) {
         r->sampling.logit_bias = {{7, kNan}};
       },
       "sampling.logit_bias[7] is nan; limit is [-100, 100]"},
      {[](Request* r) {
         r->sampling.logit_bias.assign(1025, {1, 0.0F});
       },
       "sampling.logit_bias has 1025 entries; limit is 1024"},
  });
}

TEST(Validate, NamesBadStopping) {
  ExpectRefusals({
      {[](Request* r) { r->stopping.max_tokens = 0; }, "stopping.max_tokens is 0; limit is >= 1"},
      {[](Request* r) { r->stopping.max_tokens = kMin; }, "stopping.max_tokens is -2147483648; limit is >= 1"},
      {[](Request* r) { r->stopping.max_tokens = kMax; },
       "stopping.max_tokens is 2147483647 after a prompt of 4 tokens; limit is 60 (models[].max_context_tokens is 64)"},
      {[](Request* r) { r->stopping.min_tokens = -1; }, "stopping.min_tokens is -1; limit is [0, 16]"},
      {[](Request* r) { r->stopping.min_tokens = 17; }, "stopping.min_tokens is 17; limit is [0, 16]"},
      {[](Request* r) {
         r->stopping.stop_token_ids = {1, -1};
       },
       "stopping.stop_token_ids[1] is -1; limit is [0, 99]"},
      {[](Request* r) { r->stopping.stop_token_ids = {100}; }, "stopping.stop_token_ids[0] is 100; limit is [0, 99]"},
      {[](Request* r) { r->stopping.stop_token_ids.assign(65, 1); },
       "stopping.stop_token_ids has 65 entries; limit is 64"},
  });
}

TEST(Validate, NamesTheRest) {
  ExpectRefusals({
      {[](Request* r) { r->cache_salt = std::string(129, 's'); }, "cache_salt has 129 bytes; limit is 128"},
      {[](Request* r) { r->output_index = 8; }, "output_index is 8; limit is [0, 7]"},
      {[](Request* r) { r->profile.precision = Precision::kFp16; },
       "execution.precision is fp16; the model is not served in it (models[].precisions)"},
  });
}

TEST(Validate, RefusesWhatCouldNeverFitThePool) {
  Request request = Good();
  request.profile.precision = Precision::kFp32;  // 2 tokens a page
  request.stopping.max_tokens = 21;              // the last one drawn needs no page: 4 + 21 - 1 = 24
  EXPECT_TRUE(ValidateRequest(request, Limits()).ok());
  request.stopping.max_tokens = 22;
  EXPECT_EQ(std::string(ValidateRequest(request, Limits()).message()),
            "prompt and stopping.max_tokens need 13 KV pages (4 + 22 tokens); limit is 12 "
            "(models[].kv_cache.memory_bytes)");
}

TEST(Validate, RefusesAPromptThatCouldNeverBeQueued) {
  RequestLimits limits = Limits();
  limits.max_queued_tokens = 3;
  EXPECT_EQ(std::string(ValidateRequest(Good(), limits).message()),
            "prompt has 4 tokens; limit is 3 (scheduler.max_queued_tokens)");
}

}  // namespace
}  // namespace dunlin::engine
