// SPDX-License-Identifier: Apache-2.0
// States of recurrent models in an engine: requests that wait for a slot, that are preempted and go on from a kept
// state, outputs of one prompt, and chats whose turns begin with what the prefix cache has, each against the request
// alone.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/model/spec/attention_shape.h"
#include "engine/runtime/kv_demand.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kPrompt = 50;
constexpr int32_t kOutput = 96;          // 145 tokens in all: 19 pages
constexpr int32_t kStatePageTokens = 8;  // of FP32

class RecurrentStates : public ::testing::TestWithParam<std::string> {
 protected:
  const Model& model() const { return *test_.model; }

  static Request Ask(TokenId first, int32_t output_index = 0) {
    Request request;
    for (TokenId i = 0; i < kPrompt; ++i) request.prompt.push_back((first + 7 * i) % 61);
    request.stopping.max_tokens = kOutput;
    request.stopping.ignore_eos = true;
    request.sampling.temperature = 1.0F;
    request.sampling.seed = 3;
    request.sampling.logprobs = 2;
    request.output_index = output_index;
    request.profile.precision = Precision::kFp32;
    return request;
  }

  static EngineOptions Uncached() {
    EngineOptions options;
    options.prefix_cache = false;
    return options;
  }

  // Pages of full layers and states that the KV memory has room for, with what the sliding layers of two requests take.
  EngineOptions Options(size_t pages, size_t states) const {
    const ModelConfig& config = model().config();
    EngineOptions options;
    options.max_sequences = 4;
    options.max_tokens_per_step = 13;
    KvGroups sliding = KvGroupsOf(config);
    sliding.num_full = 0;
    pages += 2 * static_cast<size_t>(
                     sliding.MostPages(kPrompt + kOutput - 1, kStatePageTokens, options.max_tokens_per_step));
    options.kv_memory_bytes = pages * KvLayoutOf(config, Precision::kFp32).page_bytes + states * StateBytesOf(config);
    return options;
  }

  // Runs all at once, and returns how often one was preempted.
  uint64_t RunTogether(const std::vector<Request>& requests, const EngineOptions& options, bool shares = true) const {
    EngineClient alone(&model(), Uncached());
    EngineClient together(&model(), options);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : requests) sinks.push_back(together.Submit(request));
    for (size_t i = 0; i < requests.size(); ++i) {
      std::string why;
      EXPECT_TRUE(SameBits(sinks[i]->Wait(), alone.Run(requests[i]), &why)) << "request " << i << ": " << why;
      EXPECT_TRUE(shares || sinks[i]->Wait().finish.cached_tokens == 0);
    }
    together.engine().Stop();
    EXPECT_EQ(together.engine().stats().pages_used, 0);
    EXPECT_EQ(together.engine().stats().prefix_hits > 0, shares);
    return together.engine().stats().preemptions;
  }

 private:
  const TestModel test_ = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kFp32});
};

TEST_P(RecurrentStates, APreemptedRequestBeginsAgainAndHasTheSameBits) {
  const std::vector<Request> requests = {Ask(1), Ask(2), Ask(3), Ask(4)};
  EXPECT_GT(RunTogether(requests, Options(24, 3), false), 0U);
}

TEST_P(RecurrentStates, RequestsWaitForTheOnlySlot) {
  EXPECT_EQ(RunTogether({Ask(1), Ask(2), Ask(3)}, Options(20, 1), false), 0U);
}

TEST_P(RecurrentStates, EachOutputOfAPromptHasAStateOfItsOwn) {
  EXPECT_EQ(RunTogether({Ask(1, 0), Ask(1, 1), Ask(1, 2)}, Options(100, 4)), 0U);
}

// Pages of 8 tokens. Each turn begins with all before it, the last answer included; also where tokens are guessed.
TEST_P(RecurrentStates, TurnsOfAChatGoOnFromTheStateOfTheTurnBefore) {
  EngineClient alone(&model(), Uncached());
  for (const int32_t step_tokens : {5, 13, 64, 512}) {
    EngineOptions options;
    options.max_tokens_per_step = step_tokens;
    options.max_drafts = step_tokens == 13 ? 6 : 0;
    options.adapt_drafts = false;
    EngineClient cached(&model(), options);
    Request request = Ask(1);
    request.stopping.max_tokens = 20;
    for (int turn = 0; turn < 4; ++turn) {
      SCOPED_TRACE("turn " + std::to_string(turn) + ", " + std::to_string(step_tokens) + " tokens a step");
      const auto history = static_cast<int32_t>(request.prompt.size());
      const Response response = cached.Run(request);
      std::string why;
      EXPECT_TRUE(SameBits(response, alone.Run(request), &why)) << why;
      // What was computed before: all but the last drawn token and the new ones of the user.
      const int32_t computed = turn == 0 ? 0 : history - 5 - 1;
      EXPECT_EQ(response.finish.cached_tokens, computed / 8 * 8);
      for (const TokenOutput& token : response.tokens) request.prompt.push_back(token.token_id);
      for (TokenId i = 0; i < 5; ++i) request.prompt.push_back(3 + i);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, RecurrentStates,
                         ::testing::Values("qwen35_tiny", "qwen35moe_tiny", "qwen3next_tiny", "lfm2_tiny",
                                           "lfm2moe_tiny", "lfm3_tiny", "granite_h_tiny", "nemotron_h_tiny",
                                           "kimi_linear_tiny", "falcon_h1_tiny", "mamba2_tiny", "olmo_hybrid_tiny",
                                           "bailing_hybrid_tiny", "bailing_hybrid_open"),
                         [](const auto& test) { return test.param; });

// Small hybrids of a context that holds a long chat.
constexpr const char* kLongHybrids[] = {
    R"({"model_type": "qwen3_5_text", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 3,
        "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 8, "vocab_size": 61,
        "max_position_embeddings": 4096, "linear_num_key_heads": 1, "linear_num_value_heads": 2,
        "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"]})",
    R"({"model_type": "granitemoehybrid", "hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 2,
        "num_key_value_heads": 1, "vocab_size": 61, "max_position_embeddings": 4096, "mamba_n_heads": 4,
        "mamba_d_state": 8, "num_local_experts": 0, "shared_intermediate_size": 16,
        "layer_types": ["mamba", "attention", "mamba"]})",
    R"({"model_type": "falcon_h1", "hidden_size": 16, "intermediate_size": 16, "num_hidden_layers": 2,
        "num_attention_heads": 2, "num_key_value_heads": 1, "vocab_size": 61, "max_position_embeddings": 4096,
        "mamba_d_ssm": 16, "mamba_n_heads": 2, "mamba_d_state": 8})",
};

class LongChats : public ::testing::TestWithParam<const char*> {};

// What a turn computes is its time to the first token: of a history of 2,000 tokens less than a tenth.
TEST_P(LongChats, TheSecondTurnComputesItsOwnTokensAlone) {
  constexpr int32_t kHistory = 2000;
  constexpr int32_t kAnswer = 20;
  constexpr int32_t kNewTokens = 25;
  const TestModel test = LoadRandomModel(GetParam(), 2, {Precision::kFp32});
  EngineClient client(test.model.get(), EngineOptions());
  Request request;
  for (TokenId i = 0; i < kHistory; ++i) request.prompt.push_back((i * i + 3 * i) % 61);
  request.stopping.max_tokens = kAnswer;
  request.stopping.ignore_eos = true;
  request.profile.precision = Precision::kFp32;
  const Response first = client.Run(request);
  EXPECT_EQ(first.finish.cached_tokens, 0);
  for (const TokenOutput& token : first.tokens) request.prompt.push_back(token.token_id);
  for (TokenId i = 0; i < kNewTokens; ++i) request.prompt.push_back(3 + i);
  const Response second = client.Run(request);
  const auto prompt = static_cast<int32_t>(request.prompt.size());
  // Whole pages of 8 tokens of all but the last drawn token, which was not computed.
  EXPECT_EQ(second.finish.cached_tokens, (kHistory + kAnswer - 1) / 8 * 8);
  EXPECT_LE(prompt - second.finish.cached_tokens, kHistory / 10);
  EngineOptions uncached;
  uncached.prefix_cache = false;
  std::string why;
  EXPECT_TRUE(SameBits(second, EngineClient(test.model.get(), uncached).Run(request), &why)) << why;
}

INSTANTIATE_TEST_SUITE_P(Models, LongChats, ::testing::ValuesIn(kLongHybrids),
                         [](const auto& test) { return "hybrid" + std::to_string(test.index); });

}  // namespace
}  // namespace dunlin::engine
