// Wire -> engine, by tables: what arrives where, what defaults apply, and that every float field refuses what is no
// number.
#include "server/convert/generate_request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "server/convert/errors.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Pair;

ModelFacts Facts() {
  ModelFacts facts;
  facts.vocab_size = 100;
  facts.max_context_tokens = 64;
  facts.has_tokenizer = true;
  facts.sampling_defaults.temperature = 0.6F;
  facts.sampling_defaults.top_k = 40;
  return facts;
}

v1::GenerateRequest Wire() {
  v1::GenerateRequest wire;
  wire.set_model("m");
  for (const int id : {1, 2, 3}) wire.mutable_token_ids()->add_ids(id);
  return wire;
}

TEST(GenerateRequest, UnsetFieldsTakeTheModelsDefaults) {
  const auto checked = CheckGenerateRequest(Wire(), Facts());
  ASSERT_TRUE(checked.ok()) << checked.status();
  EXPECT_EQ(checked->engine.sampling.temperature, 0.6F);
  EXPECT_EQ(checked->engine.sampling.top_k, 40);
  EXPECT_EQ(checked->engine.sampling.top_p, 1.0F);
  EXPECT_EQ(checked->engine.sampling.logprobs, -1);
  EXPECT_EQ(checked->engine.sampling.prompt_logprobs, -1);
  EXPECT_EQ(checked->num_outputs, 1);
  EXPECT_FALSE(checked->choice.device.has_value());
  EXPECT_THAT(checked->engine.prompt, ElementsAre(1, 2, 3));
  EXPECT_NE(checked->engine.sampling.seed, CheckGenerateRequest(Wire(), Facts())->engine.sampling.seed);
}

TEST(GenerateRequest, SetFieldsArriveWhereTheyBelong) {
  v1::GenerateRequest wire = Wire();
  v1::Sampling& sampling = *wire.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_top_k(0);
  sampling.set_top_p(0.5F);
  sampling.set_min_p(0.25F);
  sampling.set_repetition_penalty(1.5F);
  sampling.set_presence_penalty(-1);
  sampling.set_frequency_penalty(2);
  sampling.set_seed(0);
  sampling.set_n(8);
  (*sampling.mutable_logit_bias())[9] = 1;
  (*sampling.mutable_logit_bias())[3] = -100;
  wire.mutable_stopping()->set_max_tokens(10);
  wire.mutable_stopping()->set_min_tokens(2);
  wire.mutable_stopping()->add_stop("end");
  wire.mutable_stopping()->add_stop_token_ids(7);
  wire.mutable_stopping()->set_ignore_eos(true);
  wire.mutable_stopping()->set_include_stop(true);
  wire.mutable_execution()->set_device(v1::DEVICE_CPU);
  wire.mutable_execution()->set_attention_backend(v1::ATTENTION_BACKEND_EFFICIENT);
  wire.mutable_execution()->set_precision(v1::PRECISION_FP8);
  wire.mutable_execution()->set_allow_fallback(true);
  wire.mutable_output()->set_logprobs(0);
  wire.mutable_output()->set_prompt_logprobs(20);
  wire.mutable_output()->set_keep_special_tokens(true);
  wire.set_priority(-100);
  wire.set_cache_salt("salt");

  const auto checked = CheckGenerateRequest(wire, Facts());
  ASSERT_TRUE(checked.ok()) << checked.status();
  const engine::SamplingParams& params = checked->engine.sampling;
  EXPECT_EQ(params.temperature, 0.0F);
  EXPECT_EQ(params.top_k, 0);
  EXPECT_EQ(params.top_p, 0.5F);
  EXPECT_EQ(params.min_p, 0.25F);
  EXPECT_EQ(params.repetition_penalty, 1.5F);
  EXPECT_EQ(params.presence_penalty, -1.0F);
  EXPECT_EQ(params.frequency_penalty, 2.0F);
  EXPECT_EQ(params.seed, 0U);
  EXPECT_THAT(params.logit_bias, ElementsAre(Pair(3, -100.0F), Pair(9, 1.0F)));
  EXPECT_EQ(params.logprobs, 0);
  EXPECT_EQ(params.prompt_logprobs, 20);
  EXPECT_EQ(checked->num_outputs, 8);
  EXPECT_EQ(checked->engine.stopping.max_tokens, 10);
  EXPECT_EQ(checked->engine.stopping.min_tokens, 2);
  EXPECT_THAT(checked->engine.stopping.stop_token_ids, ElementsAre(7));
  EXPECT_TRUE(checked->engine.stopping.ignore_eos);
  EXPECT_TRUE(checked->include_stop);
  EXPECT_THAT(checked->stop_strings, ElementsAre("end"));
  EXPECT_EQ(checked->choice.attention_backend, engine::AttentionBackend::kEfficient);
  EXPECT_EQ(checked->choice.precision, engine::Precision::kFp8);
  EXPECT_TRUE(checked->choice.allow_fallback);
  EXPECT_TRUE(checked->keep_special_tokens);
  EXPECT_EQ(checked->engine.priority, -100);
  EXPECT_EQ(checked->engine.cache_salt, "salt");
}

TEST(GenerateRequest, EveryFloatFieldRefusesWhatIsNoUsableNumber) {
  using Set = void (v1::Sampling::*)(float);
  constexpr Set kSetters[] = {&v1::Sampling::set_temperature,
                              &v1::Sampling::set_top_p,
                              &v1::Sampling::set_min_p,
                              &v1::Sampling::set_repetition_penalty,
                              &v1::Sampling::set_presence_penalty,
                              &v1::Sampling::set_frequency_penalty};
  const float bad[] = {std::nanf(""),
                       INFINITY,
                       -INFINITY,
                       std::numeric_limits<float>::denorm_min(),
                       -std::numeric_limits<float>::denorm_min(),
                       std::numeric_limits<float>::max(),
                       std::numeric_limits<float>::lowest()};
  for (const Set set : kSetters) {
    for (const float value : bad) {
      v1::GenerateRequest wire = Wire();
      (wire.mutable_sampling()->*set)(value);
      const auto checked = CheckGenerateRequest(wire, Facts());
      EXPECT_EQ(checked.status().code(), absl::StatusCode::kInvalidArgument) << value;
      EXPECT_EQ(ReasonName(checked.status()), "INVALID_FIELD") << value;
    }
  }
}

TEST(GenerateRequest, EveryIntFieldRefusesWhatIsOutOfRange) {
  constexpr int kMin = std::numeric_limits<int32_t>::min();
  constexpr int kMax = std::numeric_limits<int32_t>::max();
  using R = v1::GenerateRequest;
  struct IntField {
    const char* path;
    void (*set)(R*, int);
    int64_t low, high;
  };
  const IntField fields[] = {
      {"sampling.top_k", [](R* r, int v) { r->mutable_sampling()->set_top_k(v); }, 0, kMax},
      {"sampling.n", [](R* r, int v) { r->mutable_sampling()->set_n(v); }, 1, 8},
      {"stopping.max_tokens", [](R* r, int v) { r->mutable_stopping()->set_max_tokens(v); }, 1, 64},
      {"stopping.min_tokens", [](R* r, int v) { r->mutable_stopping()->set_min_tokens(v); }, 0, 64},
      {"stopping.stop_token_ids[0]", [](R* r, int v) { r->mutable_stopping()->add_stop_token_ids(v); }, 0, 99},
      {"token_ids.ids[3]", [](R* r, int v) { r->mutable_token_ids()->add_ids(v); }, 0, 99},
      {"output.logprobs", [](R* r, int v) { r->mutable_output()->set_logprobs(v); }, 0, 20},
      {"output.prompt_logprobs", [](R* r, int v) { r->mutable_output()->set_prompt_logprobs(v); }, 0, 20},
      {"priority", [](R* r, int v) { r->set_priority(v); }, -100, 100},
      {"execution.precision", [](R* r, int v) { r->mutable_execution()->set_precision(static_cast<v1::Precision>(v)); },
       0, 5},
  };
  for (const IntField& field : fields) {
    const int64_t values[] = {kMin, -1, 0, 1, field.low - 1, field.low, field.high, field.high + 1, kMax};
    for (const int64_t value : values) {
      if (value < kMin || value > kMax) continue;
      v1::GenerateRequest wire = Wire();
      field.set(&wire, static_cast<int>(value));
      const absl::Status status = CheckGenerateRequest(wire, Facts()).status();
      const bool inside = value >= field.low && value <= field.high;
      EXPECT_EQ(status.ok(), inside) << field.path << " = " << value << ": " << status;
      if (!inside) {
        EXPECT_THAT(std::string(status.message()), testing::StartsWith(field.path)) << value;
      }
    }
  }
}

TEST(GenerateRequest, FitsToTheContext) {
  Limits limits;
  limits.default_max_tokens = 30;
  struct Case {
    int prompt, named, expected;  // expected 0: refused
  };
  for (const Case& c : {Case{3, 0, 30},
                        {40, 0, 24},
                        {63, 0, 1},
                        {64, 0, 0},
                        {65, 0, 0},
                        {0, 0, 0},
                        {3, 61, 61},
                        {3, 62, 0},
                        {60, 4, 4}}) {
    CheckedRequest request;
    request.engine.prompt.assign(static_cast<size_t>(c.prompt), 1);
    request.engine.stopping.max_tokens = c.named;
    const absl::Status status = FitToContext(Facts(), limits, &request);
    EXPECT_EQ(status.ok(), c.expected != 0) << c.prompt << ", " << c.named << ": " << status;
    if (status.ok()) {
      EXPECT_EQ(request.engine.stopping.max_tokens, c.expected);
    } else {
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    }
  }
}

TEST(GenerateRequest, MinTokensAreBoundedByTheMaxTokensThatApply) {
  Limits limits;
  limits.default_max_tokens = 5;
  CheckedRequest request;
  request.engine.prompt = {1};
  request.engine.stopping.max_tokens = 0;
  request.engine.stopping.min_tokens = 6;
  EXPECT_THAT(std::string(FitToContext(Facts(), limits, &request).message()),
              HasSubstr("stopping.min_tokens is 6; limit is [0, 5]"));
}

}  // namespace
}  // namespace dunlin::server
