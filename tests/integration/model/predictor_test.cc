// SPDX-License-Identifier: Apache-2.0
// Layers that predict further tokens: their logits against tests/golden/predictors, and that what they guess changes no
// token and no bit of a model.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "engine/draft_model/predicting_layer.h"
#include "engine/model/load/load_model.h"
#include "engine/plan/sequence_view.h"
#include "engine/sampling/sample_rows.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr RequestId kId = 7;

std::string PathOf(const std::string& name) {
  return SourcePath("tests/golden/predictors/" + name);
}

RankedModel LoadWithPredictor(const std::string& name, int32_t num_ranks, const std::vector<Precision>& precisions) {
  ModelSource source;
  source.path = PathOf(name);
  source.precisions = precisions;
  source.predictor = true;
  return LoadRankedModel(source, "", 2, num_ranks);
}

// A sequence of known tokens in a runtime of its own, without a scheduler.
class KnownSequence {
 public:
  KnownSequence(const Model* model, std::vector<TokenId> tokens)
      : tokens_(std::move(tokens)), vocab_size_(model->config().vocab_size) {
    EngineOptions options;
    options.max_sequences = 2;
    options.kv_memory_bytes = size_t{1} << 20;
    runtime_ = *ModelRuntime::Create(model, options);
    pages_.resize(16);
    std::iota(pages_.rbegin(), pages_.rend(), 3);
    profile_.precision = model->precisions().front();
  }

  // The next `count` tokens.
  void Compute(int32_t count) {
    StepPlan plan;
    plan.mask_words = kernels::MaskWords(vocab_size_);
    AppendSequence(profile_,
                   {.request_id = kId,
                    .tokens = tokens_,
                    .prompt_len = static_cast<int32_t>(tokens_.size()),
                    .pages = pages_,
                    .sampling = sampling_,
                    .stopping = stopping_,
                    .state = {.slot = 1}},
                   {.first_position = num_computed_, .num_tokens = count}, &plan);
    StepResult result;
    ASSERT_TRUE(runtime_->Collect(*runtime_->Launch(plan), &result).ok());
    num_computed_ += count;
  }

  // What is predicted from the last computed position and the token after it.
  TokenOutput Predict() {
    SamplingParams sampling;
    sampling.temperature = 0.0F;
    sampling.logprobs = kernels::kMaxTopLogprobs;
    StepPlan plan;
    plan.sub_batches.push_back({profile_, 0, 1, 1, 1});
    plan.num_tokens = 1;
    SequenceStep& step = plan.sequences.emplace_back();
    step.first_position = num_computed_ - 1;
    step.num_tokens = 1;
    step.samples = true;
    step.row = DrawRow(sampling, 0, num_computed_);
    step.tokens = {0, 1};
    plan.tokens = {tokens_[static_cast<size_t>(num_computed_)]};
    step.pages = {0, static_cast<int32_t>(pages_.size())};
    plan.pages = pages_;
    const int32_t hidden = runtime_->FindHidden(kId, num_computed_ - 1);
    EXPECT_GE(hidden, 0);
    StepResult result;
    EXPECT_TRUE(runtime_->Predict(plan, std::vector<int32_t>{hidden}, &result).ok());
    EXPECT_TRUE(result.outputs.at(0).sampled);
    return result.outputs[0].token;
  }

 private:
  std::vector<TokenId> tokens_;
  int32_t vocab_size_;
  std::unique_ptr<ModelRuntime> runtime_;
  std::vector<PageId> pages_;
  ExecutionProfile profile_;
  SamplingParams sampling_;
  StoppingParams stopping_;
  int32_t num_computed_ = 0;
};

std::vector<float> LogProbabilities(const std::vector<float>& logits) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  std::vector<float> logprobs;
  for (const float logit : logits) logprobs.push_back(static_cast<float>(logit - std::log(sum)));
  return logprobs;
}

struct PredictorCase {
  const char* name;
  int32_t num_ranks;
};
void PrintTo(const PredictorCase& test, std::ostream* out) {
  *out << test.name << ", " << test.num_ranks << " ranks";
}

class Predictors : public ::testing::TestWithParam<PredictorCase> {};

// By single tokens and by chunks, which store keys and values of several rows; the last position of each is predicted
// from.
TEST_P(Predictors, HaveTheLogitsOfTheReference) {
  std::ifstream file(PathOf(GetParam().name) + "/golden.json");
  const auto golden = nlohmann::json::parse(file);
  const auto tokens = golden.at("tokens").get<std::vector<TokenId>>();
  const RankedModel test = LoadWithPredictor(GetParam().name, GetParam().num_ranks, {Precision::kFp32});
  for (const int32_t chunk : {1, 3, 8, 24}) {
    KnownSequence sequence(test.model.get(), tokens);
    for (int32_t end = chunk; end < static_cast<int32_t>(tokens.size()); end += chunk) {
      SCOPED_TRACE("position " + std::to_string(end - 1) + ", chunks of " + std::to_string(chunk));
      sequence.Compute(chunk);
      const std::vector<float> expected =
          LogProbabilities(golden.at("logits").at(static_cast<size_t>(end - 1)).get<std::vector<float>>());
      const TokenOutput predicted = sequence.Predict();
      ASSERT_EQ(predicted.num_top, kernels::kMaxTopLogprobs);
      EXPECT_NEAR(predicted.logprob, expected[static_cast<size_t>(predicted.token_id)], 2e-4F);
      for (int32_t i = 0; i < predicted.num_top; ++i) {
        const kernels::TopLogprob& top = predicted.top[static_cast<size_t>(i)];
        EXPECT_NEAR(top.logprob, expected[static_cast<size_t>(top.token_id)], 2e-4F);
      }
    }
  }
}

TEST_P(Predictors, HaveTheBitsOfOneRank) {
  std::ifstream file(PathOf(GetParam().name) + "/golden.json");
  const auto tokens = nlohmann::json::parse(file).at("tokens").get<std::vector<TokenId>>();
  for (const Precision precision : {Precision::kFp32, Precision::kBf16}) {
    const RankedModel whole = LoadWithPredictor(GetParam().name, 1, {precision});
    const RankedModel divided = LoadWithPredictor(GetParam().name, GetParam().num_ranks, {precision});
    KnownSequence alone(whole.model.get(), tokens);
    KnownSequence together(divided.model.get(), tokens);
    for (int32_t end = 5; end < static_cast<int32_t>(tokens.size()); end += 5) {
      SCOPED_TRACE("position " + std::to_string(end - 1));
      alone.Compute(5);
      together.Compute(5);
      const TokenOutput expected = alone.Predict();
      const TokenOutput predicted = together.Predict();
      EXPECT_EQ(predicted.token_id, expected.token_id);
      EXPECT_EQ(predicted.logprob, expected.logprob);
      ASSERT_EQ(predicted.num_top, expected.num_top);
      for (size_t i = 0; i < static_cast<size_t>(expected.num_top); ++i) {
        EXPECT_EQ(predicted.top[i].token_id, expected.top[i].token_id);
        EXPECT_EQ(predicted.top[i].logprob, expected.top[i].logprob);
      }
    }
  }
}

// Rows in place of its first ten tokens: it is not guessed from, and its neighbours are.
Request WithAnyRows(Request request, const ModelConfig& config) {
  PromptRows rows;
  rows.spans = {{.first = 0, .count = 10, .image_columns = config.rotary.axes.empty() ? 0 : 5}};
  rows.columns = config.hidden_dim;
  for (int32_t i = 0; i < 10 * rows.columns; ++i) rows.values.push_back(std::sin(static_cast<float>(i)));
  std::iota(request.prompt.begin(), request.prompt.begin() + 10, kFirstRowToken);
  request.sampling.prompt_logprobs = -1;
  request.rows = std::make_shared<const PromptRows>(std::move(rows));
  return request;
}

TEST_P(Predictors, ChangeNoTokenAndNoBit) {
  const std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16, Precision::kInt8};
  const TestModel plain_model = LoadTestModel(PathOf(GetParam().name), "", 2, precisions);
  const RankedModel test = LoadWithPredictor(GetParam().name, GetParam().num_ranks, precisions);
  std::vector<Request> requests;
  for (const Precision precision : precisions) {
    for (int i = 0; i < 4; ++i) {
      Request request;
      request.profile.precision = precision;
      for (TokenId token = 0; token < 9 + 11 * i; ++token) request.prompt.push_back((5 + token * (i + 3)) % 61);
      request.stopping.max_tokens = 40;
      request.stopping.ignore_eos = true;
      request.sampling.temperature = i == 1 ? 1.0F : 0.0F;
      request.sampling.seed = 11;
      request.sampling.logprobs = 3;
      if (i == 2) request.sampling.prompt_logprobs = 1;
      requests.push_back(request);
    }
    if (GetParam().num_ranks > 1) continue;
    requests.push_back(WithAnyRows(requests.back(), test.model->config()));
  }
  EngineOptions options;
  EngineClient plain(plain_model.model.get(), options);
  options.max_drafts = 5;
  options.adapt_drafts = false;
  for (const int32_t steps_in_flight : {1, 2}) {
    options.steps_in_flight = steps_in_flight;
    EngineClient guessing(test.model.get(), options, [](ModelRuntime* runtime, const Model& model) {
      return std::make_unique<PredictingLayer>(runtime, model.config().vocab_size);
    });
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : requests) sinks.push_back(guessing.Submit(request));
    for (size_t i = 0; i < requests.size(); ++i) {
      std::string why;
      EXPECT_TRUE(SameBits(sinks[i]->Wait(), plain.Run(requests[i]), &why)) << "request " << i << ": " << why;
      EXPECT_TRUE(requests[i].rows == nullptr || sinks[i]->Wait().finish.drafted_tokens == 0);
    }
    guessing.engine().Stop();
    EXPECT_GT(guessing.engine().stats().draft_tokens, 100U);
    EXPECT_EQ(guessing.engine().stats().pages_used, 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Predictors,
                         ::testing::Values(PredictorCase{"qwen35_mtp", 1}, PredictorCase{"qwen35_mtp", 2},
                                           PredictorCase{"qwen35_mtp", 4}, PredictorCase{"glm4_moe_mtp", 1},
                                           PredictorCase{"glm4_moe_mtp", 2}, PredictorCase{"glm4_moe_mtp", 4},
                                           PredictorCase{"deepseek_v3_mtp", 1}, PredictorCase{"deepseek_v3_mtp", 2},
                                           PredictorCase{"deepseek_v3_mtp", 4}, PredictorCase{"step_mtp", 1},
                                           PredictorCase{"step_mtp", 2}, PredictorCase{"step_mtp", 4}),
                         [](const auto& test) {
                           return std::string(test.param.name) + "_" + std::to_string(test.param.num_ranks);
                         });

TEST(PredictorLoading, NamesWhatIsMissingAndWhatIsNotServed) {
  std::string error;
  const auto device = kernels::OpenDevice(kernels::DeviceKind::kCpu, {1, ""}, &error);
  const auto message = [&](const std::string& path, const std::string& shape) {
    ModelSource source;
    source.path = path;
    source.random_shape = shape;
    source.precisions = {Precision::kFp32};
    source.predictor = true;
    const absl::Status status = LoadModel(source, device.get()).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    return std::string(status.message());
  };
  const std::string without = message(GoldenModelPath("llama_gqa"), "");
  EXPECT_NE(without.find("the checkpoint has no layer that predicts further tokens: neither mtp.fc.weight nor "
                         "model.layers.2.eh_proj.weight"),
            std::string::npos)
      << without;
  const std::string shape = R"({"model_type": "gemma2", "hidden_size": 16, "num_hidden_layers": 2, "vocab_size": 50,
      "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": 16})";
  const std::string other = message("", shape);
  EXPECT_NE(other.find("not served for gemma2: its layers are not two terms"), std::string::npos) << other;
}

}  // namespace
}  // namespace dunlin::engine
