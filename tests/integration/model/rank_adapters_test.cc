// SPDX-License-Identifier: Apache-2.0
// Low-rank adapters of a model that is divided among ranks: PEFT's probabilities, and the bits of the model in one
// piece.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <ostream>
#include <string>
#include <vector>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/test_adapters.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kRankAdapterTolerance = 1e-4F;

struct RankAdapterCase {
  const char* model;
  int32_t num_ranks;
  std::vector<std::string> adapters;  // the logits of the first are in its folder
};
void PrintTo(const RankAdapterCase& test, std::ostream* out) {
  *out << test.model << ", " << test.num_ranks << " ranks";
}

class RankAdapters : public ::testing::TestWithParam<RankAdapterCase> {};

float RankLogProbability(const std::vector<float>& logits, TokenId token) {
  double sum = 0.0;
  for (const float logit : logits) sum += std::exp(static_cast<double>(logit));
  return logits[static_cast<size_t>(token)] - static_cast<float>(std::log(sum));
}

EngineOptions WithRankAdapters() {
  EngineOptions options;
  options.adapters = TestAdapterLimits();
  options.max_tokens_per_step = 37;
  return options;
}

TEST_P(RankAdapters, LogProbabilitiesAreThoseOfPeft) {
  const std::string& adapter = GetParam().adapters.front();
  const GoldenPrompt prompt = ReadGoldens(GoldenAdapterPath(adapter))[0];
  const RankedModel ranked =
      LoadRankedModel(GoldenModelPath(GetParam().model), "", 1, GetParam().num_ranks, {Precision::kFp32});
  const std::unique_ptr<AdapterSet> set = LoadTestAdapters(ranked.model.get(), {adapter});
  EngineClient client(ranked.model.get(), WithRankAdapters());
  Request request;
  request.prompt = prompt.tokens;
  request.sampling.temperature = 0.0F;
  request.sampling.logprobs = 0;
  request.sampling.prompt_logprobs = 0;
  request.stopping.max_tokens = 1;
  request.stopping.ignore_eos = true;
  request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32};
  request.adapter = set->Lookup(adapter);
  const Response response = client.Run(request);
  ASSERT_EQ(response.prompt.size(), prompt.tokens.size() - 1);
  ASSERT_EQ(response.tokens.size(), 1U);
  ASSERT_FALSE(prompt.logits.empty());
  for (const GoldenLogits& golden : prompt.logits) {
    const auto position = static_cast<size_t>(golden.position);
    const bool last = position + 1 == prompt.tokens.size();
    const TokenOutput& token = last ? response.tokens[0] : response.prompt[position].second;
    EXPECT_NEAR(token.logprob, RankLogProbability(golden.values, token.token_id), kRankAdapterTolerance) << position;
  }
}

// Requests with every adapter and with none, alone on one rank and together on several.
TEST_P(RankAdapters, ResponsesHaveTheBitsOfOneRank) {
  const std::string path = GoldenModelPath(GetParam().model);
  const std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  const TestModel whole = LoadTestModel(path, "", 1, precisions);
  const RankedModel ranked = LoadRankedModel(path, "", 1, GetParam().num_ranks, precisions);
  const std::unique_ptr<AdapterSet> of_whole = LoadTestAdapters(whole.model.get(), GetParam().adapters);
  const std::unique_ptr<AdapterSet> of_ranks = LoadTestAdapters(ranked.model.get(), GetParam().adapters);
  EngineClient alone(whole.model.get(), WithRankAdapters());
  EngineClient together(ranked.model.get(), WithRankAdapters());
  std::vector<Response> expected;
  std::vector<std::shared_ptr<RecordingSink>> sinks;
  for (const Precision precision : precisions) {
    for (size_t i = 0; i <= GetParam().adapters.size(); ++i) {
      Request request;
      request.prompt = {3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5};
      request.sampling.temperature = 0.0F;
      request.sampling.logprobs = 2;
      request.stopping.max_tokens = 12;
      request.stopping.ignore_eos = true;
      request.profile = {DeviceKind::kCpu, AttentionBackend::kFlash, precision};
      if (i > 0) request.adapter = of_whole->Lookup(GetParam().adapters[i - 1]);
      expected.push_back(alone.Run(request));
      if (i > 0) request.adapter = of_ranks->Lookup(GetParam().adapters[i - 1]);
      sinks.push_back(together.Submit(request));
    }
  }
  for (size_t i = 0; i < sinks.size(); ++i) {
    std::string why;
    EXPECT_TRUE(SameBits(sinks[i]->Wait(), expected[i], &why)) << "request " << i << ": " << why;
    if (i > 0 && i <= GetParam().adapters.size()) {
      EXPECT_FALSE(SameBits(expected[i], expected[0], &why)) << "adapter " << i << " changes nothing";
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, RankAdapters,
    ::testing::Values(
        RankAdapterCase{"llama_gqa", 2, {"llama_gqa_head", "llama_gqa", "llama_gqa_second", "llama_gqa_third"}},
        RankAdapterCase{"llama_gqa", 3, {"llama_gqa", "llama_gqa_second", "llama_gqa_third"}},
        RankAdapterCase{"gpt2_tiny", 2, {"gpt2_tiny"}}, RankAdapterCase{"gpt2_tiny", 3, {"gpt2_tiny"}},
        RankAdapterCase{"neox_parallel", 2, {"neox_parallel"}}, RankAdapterCase{"neox_parallel", 3, {"neox_parallel"}},
        RankAdapterCase{"gemma3_tiny", 2, {"gemma3_tiny"}}, RankAdapterCase{"gemma3_tiny", 4, {"gemma3_tiny"}},
        RankAdapterCase{"phi3_tiny", 2, {"phi3_tiny"}}, RankAdapterCase{"granite_tiny", 2, {"granite_tiny"}},
        RankAdapterCase{"qwen35_tiny", 2, {"qwen35_tiny", "qwen35_gates"}},
        RankAdapterCase{"qwen3next_tiny", 2, {"qwen3next_tiny"}}, RankAdapterCase{"lfm2_tiny", 2, {"lfm2_tiny"}},
        RankAdapterCase{"mamba2_tiny", 2, {"mamba2_tiny"}}, RankAdapterCase{"falcon_h1_tiny", 2, {"falcon_h1_tiny"}},
        RankAdapterCase{"mixtral_tiny", 2, {"mixtral_tiny", "mixtral_modules"}},
        RankAdapterCase{"qwen2_moe_tiny", 2, {"qwen2_moe_tiny"}}, RankAdapterCase{"gpt_oss_tiny", 2, {"gpt_oss_tiny"}},
        RankAdapterCase{"llama4_tiny", 2, {"llama4_tiny"}},
        RankAdapterCase{"deepseek_v3_tiny", 2, {"deepseek_v3_tiny"}},
        RankAdapterCase{"gemma4_moe_tiny", 2, {"gemma4_moe_tiny"}},
        RankAdapterCase{"nemotron_h_tiny", 2, {"nemotron_h_tiny"}}),
    [](const auto& test) { return std::string(test.param.model) + "_" + std::to_string(test.param.num_ranks); });

}  // namespace
}  // namespace dunlin::engine
