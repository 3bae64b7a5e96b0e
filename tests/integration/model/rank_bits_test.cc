// SPDX-License-Identifier: Apache-2.0
// A model that is divided among ranks gives the bits of the model in one piece: every golden that is divided,
// checkpoints with quantised weights, and the mixes of the bit contract.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>
#include <ostream>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "tests/integration/model/bit_mixes.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/ranked_model.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

namespace fs = std::filesystem;

constexpr float kClearGap = 1e-3F;  // below it the reference itself may fall either way
constexpr size_t kGoldenTokens = 8;
constexpr size_t kGoldenPrompts = 2;  // of a golden: ranks that share processors with other tests are slow
constexpr int kMinDivided = 80;       // models of the goldens at least, by two and, of these three quarters, by four

Request GreedyRequest(const std::vector<TokenId>& tokens, size_t num_new, const ExecutionProfile& profile) {
  Request request;
  request.prompt = tokens;
  request.sampling.temperature = 0.0F;
  request.sampling.logprobs = 2;
  request.stopping.max_tokens = static_cast<int32_t>(num_new);
  request.stopping.ignore_eos = true;
  request.profile = profile;
  return request;
}

void ExpectGreedyTokens(const Response& response, const GoldenPrompt& prompt) {
  ASSERT_EQ(response.tokens.size(), kGoldenTokens);
  for (size_t step = 0; step < kGoldenTokens && prompt.greedy_gaps[step] >= kClearGap; ++step) {
    ASSERT_EQ(response.tokens[step].token_id, prompt.greedy_tokens[step]) << "step " << step;
  }
}

// Models with a golden, by the number of ranks that divided them.
std::map<int32_t, int> divided_models;

class RankGoldens : public ::testing::TestWithParam<std::string> {};

TEST_P(RankGoldens, TokensAndBitsAreThoseOfOneRank) {
  const std::string path = GoldenModelPath(GetParam());
  const std::vector<Precision> precisions = {Precision::kFp32, Precision::kBf16};
  const TestModel whole = LoadTestModel(path, "", 1, precisions);
  EngineOptions options;
  options.max_tokens_per_step = 37;  // prompts in odd chunks
  EngineClient alone(whole.model.get(), options);
  std::string reasons;
  for (const int32_t num_ranks : {2, 4}) {
    std::string reason;
    if (!Divides(path, num_ranks, &reason)) {
      reasons += reason + "; ";
      continue;
    }
    SCOPED_TRACE(std::to_string(num_ranks) + " ranks");
    ++divided_models[num_ranks];
    const RankedModel ranked = LoadRankedModel(path, "", 1, num_ranks, precisions);
    EngineClient together(ranked.model.get(), options);
    const std::vector<GoldenPrompt> prompts = ReadGoldens(path);
    for (const Precision precision : precisions) {
      if (num_ranks == 4 && precision != Precision::kFp32) continue;
      for (const GoldenPrompt& prompt : std::span(prompts).first(std::min(prompts.size(), kGoldenPrompts))) {
        const Request request =
            GreedyRequest(prompt.tokens, kGoldenTokens, {DeviceKind::kCpu, AttentionBackend::kFlash, precision});
        const Response response = together.Run(request);
        std::string why;
        ASSERT_TRUE(SameBits(response, alone.Run(request), &why)) << kernels::Name(precision) << ": " << why;
        if (precision == Precision::kFp32) ExpectGreedyTokens(response, prompt);
      }
    }
  }
  if (!reasons.empty()) std::printf("not divided: %s\n", reasons.c_str());
}

INSTANTIATE_TEST_SUITE_P(Models, RankGoldens, ::testing::ValuesIn(GoldenModelNames()),
                         [](const auto& test) { return test.param; });

// Checkpoints whose own codes are served, cut between rows alone.
std::vector<std::string> QuantisedFiles() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(SourcePath("tests/golden/quant"))) {
    if (fs::exists(entry.path() / "config.json")) files.push_back(entry.path().string());
  }
  for (const char* name : {"llama_k", "llama_q4", "llama_iq", "experts_q4", "deepseek_q8"}) {
    files.push_back(SourcePath(std::string("tests/golden/gguf/") + name + "/model.gguf"));
  }
  files.push_back(SourcePath("tests/golden/gguf/qwen35_tiny.gguf"));  // heads of values that are tiled
  for (const char* name :
       {"gemma4_tiny", "gemma4_e_tiny", "gemma4_moe_tiny", "step_tiny"}) {  // heads of several shapes
    files.push_back(SourcePath(std::string("tests/golden/gguf/") + name + ".gguf"));
  }
  return files;
}

TEST(RankCodes, OwnCodesHaveTheBitsOfOneRank) {
  int num_divided = 0;
  for (const std::string& file : QuantisedFiles()) {
    SCOPED_TRACE(file);
    std::string reason;
    if (!Divides(file, 2, &reason)) continue;
    const TestModel probe = LoadTestModel(file, "", 1, {Precision::kFp32});
    const Precision precision = probe.model->own_precision().value_or(Precision::kFp8);
    const TestModel whole = LoadTestModel(file, "", 1, {precision, Precision::kFp32});
    const RankedModel ranked = LoadRankedModel(file, "", 1, 2, {precision, Precision::kFp32});
    EngineClient alone(whole.model.get(), {});
    EngineClient together(ranked.model.get(), {});
    for (const ExecutionProfile& profile : SupportedProfiles(*whole.model, {precision, Precision::kFp32})) {
      const Request request = GreedyRequest({1, 5, 9, 2, 7, 7, 3}, 12, profile);
      std::string why;
      EXPECT_TRUE(SameBits(together.Run(request), alone.Run(request), &why)) << kernels::Name(precision) << ": " << why;
    }
    ++num_divided;
  }
  EXPECT_GE(num_divided, 10);
}

struct RankMix {
  const char* name;
  int32_t num_ranks;
  bool kv_fp8 = false;
  const char* variant = "";
  bool eager = false;
};
void PrintTo(const RankMix& mix, std::ostream* out) {
  *out << mix.name << ", " << mix.num_ranks << " ranks";
}

MixTotals rank_totals;

class RankMixes : public ::testing::TestWithParam<RankMix> {};

// The request alone on one rank against mixes on several: all precisions, all backends, FP8 pages.
TEST_P(RankMixes, AResponseEqualsThatOfItsRequestAloneOnOneRank) {
  const RankMix& mix = GetParam();
  const MixCase test{mix.name, GoldenModelPath(mix.name), 1, 1, mix.kv_fp8, mix.eager};
  const TestModel alone = LoadTestModel(test.path, mix.variant, 1, kAllPrecisions);
  const RankedModel together = LoadRankedModel(test.path, mix.variant, 1, mix.num_ranks, kAllPrecisions);
  RunMixes(*alone.model, *together.model, test, &rank_totals);
}

INSTANTIATE_TEST_SUITE_P(
    Models, RankMixes,
    ::testing::Values(RankMix{"gpt2_tiny", 3}, RankMix{"llama_gqa", 2}, RankMix{"mistral_window", 4, true},
                      RankMix{"qwen3_qk_norm", 2}, RankMix{"mixtral_tiny", 4}, RankMix{"gemma2_tiny", 4},
                      RankMix{"gemma3_tiny", 2}, RankMix{"gpt_oss_tiny", 2}, RankMix{"qwen35_tiny", 2},
                      RankMix{"granite_h_tiny", 2}, RankMix{"falcon_h1_norm", 2}, RankMix{"lfm3_tiny", 4},
                      RankMix{"deepseek_v32_tiny", 4}, RankMix{"kimi_linear_tiny", 2}, RankMix{"llama4_tiny", 2},
                      RankMix{"olmo2_tiny", 4}, RankMix{"gemma4_tiny", 2}, RankMix{"gemma4_e_tiny", 4},
                      RankMix{"gemma4_moe_tiny", 2}, RankMix{"step_tiny", 4}, RankMix{"minimax_m2_tiny", 2},
                      RankMix{"olmo_hybrid_tiny", 2}, RankMix{"bailing_hybrid_tiny", 2}, RankMix{"apertus_tiny", 4},
                      RankMix{"phimoe_tiny", 2}, RankMix{"minimax_m3_tiny", 2}, RankMix{"minimax_m3_tiny", 4},
                      RankMix{"qwen3_qk_norm", 2, false, "portable"}, RankMix{"gpt2_tiny", 2, false, "", true},
                      RankMix{"gemma2_tiny", 4, false, "", true}, RankMix{"mixtral_tiny", 2, false, "", true},
                      RankMix{"olmo2_tiny", 2, false, "", true}, RankMix{"gemma4_e_tiny", 2, false, "", true},
                      RankMix{"gemma4_moe_tiny", 2, false, "", true}, RankMix{"falcon_h1_norm", 2, false, "", true},
                      RankMix{"qwen35_tiny", 2, false, "", true}, RankMix{"deepseek_v32_tiny", 2, false, "", true}),
    [](const auto& test) {
      return std::string(test.param.name) + "_" + std::to_string(test.param.num_ranks) +
             (test.param.kv_fp8 ? "_fp8_kv" : "") + (test.param.eager ? "_eager" : "") + test.param.variant;
    });

// Ranks with a pool of threads each, on a model whose products several threads share.
TEST(RankPools, TwoRanksOfTwoThreadsHaveTheBitsOfOne) {
  const MixCase test{"demo", SourcePath("models/demo"), 1, 1};
  const TestModel alone = LoadTestModel(test.path, "", 1, kAllPrecisions);
  const RankedModel together = LoadRankedModel(test.path, "", 2, 2, kAllPrecisions);
  RunMixes(*alone.model, *together.model, test, &rank_totals);
}

// Whole families must be divided, or the tests above mean nothing.
class RanksExercised : public ::testing::Environment {
 public:
  void TearDown() override {
    std::printf("divided by two %d, by four %d; requests of mixes %llu\n", divided_models[2], divided_models[4],
                static_cast<unsigned long long>(rank_totals.requests));
    if (divided_models[2] < 2) return;  // a filtered run
    EXPECT_GE(divided_models[2], kMinDivided);
    EXPECT_GE(divided_models[4], kMinDivided * 3 / 4);
  }
};
const ::testing::Environment* const kRanksExercised = ::testing::AddGlobalTestEnvironment(new RanksExercised);

}  // namespace
}  // namespace dunlin::engine
