// SPDX-License-Identifier: Apache-2.0
// Speculation changes no token and no log-probability bit: requests whose text repeats itself, so that guesses are
// right, wrong and right again, give the same with and without it, in every profile, alone and together.
#include <gtest/gtest.h>

#include "engine/draft_model/draft_model.h"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"
#include "tests/simulation/scripted_constraint.h"

namespace dunlin::engine {
namespace {

constexpr int32_t kSpeculatedTokens = 60;

// A prompt of a phrase that comes again.
Request Repeating(const ExecutionProfile& profile, int32_t vocab_size) {
  Request request;
  request.profile = profile;
  for (int32_t i = 0; i < 40; ++i) request.prompt.push_back((7 + i % 13 * 5) % vocab_size);
  request.stopping.max_tokens = kSpeculatedTokens;
  request.stopping.ignore_eos = true;
  request.sampling.temperature = 0.0F;
  request.sampling.logprobs = 3;
  return request;
}

// Choices of few tokens and, where `forces`, single ones between them: outputs that repeat themselves.
std::shared_ptr<const TokenConstraint> Choices(int32_t vocab_size, bool forces) {
  std::vector<simulation::Place> places(7);
  for (size_t i = 0; i < places.size(); ++i) {
    const int32_t count = forces && i % 7 > 2 ? 1 : 2 + static_cast<int32_t>(i % 2);
    for (int32_t k = 0; k < count; ++k) {
      places[i].allowed.push_back((10 + 5 * static_cast<int32_t>(i) + k) % vocab_size);
    }
  }
  return std::make_shared<simulation::ScriptedConstraint>(places, std::vector<TokenId>{},
                                                          [](size_t place, TokenId) { return (place + 1) % 7; });
}

// The ways in which a draw depends on the tokens before it, or on where it stands.
std::vector<Request> Variants(const ExecutionProfile& profile, int32_t vocab_size) {
  const Request greedy = Repeating(profile, vocab_size);
  std::vector<Request> requests(13, greedy);
  requests[1].sampling.temperature = 0.3F;
  requests[1].sampling.seed = 5;
  requests[1].output_index = 1;
  requests[2].sampling.temperature = 1.0F;
  requests[2].sampling.top_p = 0.5F;
  requests[3].sampling.repetition_penalty = 1.02F;
  requests[4].sampling.frequency_penalty = 0.02F;
  requests[4].sampling.presence_penalty = 0.05F;
  requests[5].stopping.min_tokens = 20;
  requests[5].stopping.stop_token_ids = {greedy.prompt[0], greedy.prompt[5]};
  requests[6].sampling.bad_words = {{greedy.prompt[1], greedy.prompt[2]}, {greedy.prompt[3]}};
  requests[7].sampling.allowed_token_ids = {greedy.prompt[0], greedy.prompt[1], greedy.prompt[2]};
  requests[8].sampling.prompt_logprobs = 1;
  requests[8].stopping.max_tokens = 1;
  for (size_t i = 9; i < requests.size(); ++i) {
    requests[i].constraint = Choices(vocab_size, i >= 11);
    requests[i].sampling.temperature = static_cast<float>(i % 2);
    requests[i].sampling.seed = i;
    if (i >= 11) requests[i].sampling.logprobs = -1;  // so that tokens are forced
  }
  return requests;
}

// Log-probabilities that were not asked for mean nothing.
void ExpectSame(const Request& request, const Response& response, const Response& expected) {
  EXPECT_EQ(TokenIds(response), TokenIds(expected));
  EXPECT_EQ(response.finish.reason, expected.finish.reason);
  std::string why;
  if (request.sampling.logprobs >= 0) {
    EXPECT_TRUE(SameBits(response, expected, &why)) << why;
  }
}

class SpeculationBits : public ::testing::TestWithParam<const char*> {};

TEST_P(SpeculationBits, GuessesChangeNoTokenAndNoBit) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, kAllPrecisions);
  const int32_t vocab_size = test.model->config().vocab_size;
  std::vector<Request> requests;
  for (const ExecutionProfile& profile : SupportedProfiles(*test.model, kAllPrecisions)) {
    for (Request& request : Variants(profile, vocab_size)) requests.push_back(std::move(request));
  }
  EngineOptions options;
  EngineClient plain(test.model.get(), options);
  options.max_drafts = kMaxDrafts;
  options.adapt_drafts = false;
  EngineClient guessing(test.model.get(), options);
  std::vector<std::shared_ptr<RecordingSink>> together;
  for (const Request& request : requests) together.push_back(guessing.Submit(request));
  int64_t accepted = 0;
  for (size_t i = 0; i < requests.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    const Response& expected = plain.Run(requests[i]);
    ExpectSame(requests[i], together[i]->Wait(), expected);
    const FinishInfo& finish = together[i]->Wait().finish;
    EXPECT_LE(finish.accepted_tokens, finish.drafted_tokens);
    accepted += finish.accepted_tokens;
  }
  guessing.engine().Stop();
  plain.engine().Stop();
  const EngineStats stats = guessing.engine().stats();
  EXPECT_GT(stats.accepted_tokens, requests.size());
  EXPECT_GT(stats.draft_tokens, stats.accepted_tokens);  // some are rejected
  EXPECT_EQ(stats.accepted_tokens, static_cast<uint64_t>(accepted));
  EXPECT_EQ(plain.engine().stats().draft_tokens, 0U);
  EXPECT_EQ(stats.pages_used, 0);
}

TEST_P(SpeculationBits, ARequestChoosesAndIsTold) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kBf16});
  EngineOptions options;
  options.max_drafts = 4;
  options.adapt_drafts = false;
  EngineClient client(test.model.get(), options);
  Request request = Repeating({}, test.model->config().vocab_size);
  request.profile.attention_backend = AttentionBackend::kMath;
  request.sampling.allowed_token_ids = {request.prompt[0]};  // the output repeats itself
  const Response by_default = client.Run(request);
  request.max_drafts = 0;
  const Response off = client.Run(request);
  std::string why;
  EXPECT_TRUE(SameBits(by_default, off, &why)) << why;
  EXPECT_GT(by_default.finish.drafted_tokens, 0);
  EXPECT_EQ(off.finish.drafted_tokens, 0);
}

INSTANTIATE_TEST_SUITE_P(Models, SpeculationBits,
                         ::testing::Values("gpt2_tiny", "llama_gqa", "mistral_window", "qwen2_moe_tiny",
                                           "deepseek_v3_tiny", "gemma4_tiny", "gemma4_e_tiny"),
                         [](const auto& test) { return test.param; });

// Of every kind of recurrent layer.
INSTANTIATE_TEST_SUITE_P(RecurrentModels, SpeculationBits,
                         ::testing::Values("qwen35_tiny", "qwen3next_tiny", "kimi_linear_tiny", "lfm2_tiny",
                                           "granite_h_tiny", "nemotron_h_tiny", "falcon_h1_tiny", "mamba2_tiny",
                                           "olmo_hybrid_tiny", "bailing_hybrid_tiny"),
                         [](const auto& test) { return test.param; });

std::unique_ptr<BatchDrafter> DraftBy(const Model& draft, const Model& model, const EngineOptions& options) {
  auto drafter = DraftModel::Create(&draft, options, model.config().vocab_size);
  EXPECT_TRUE(drafter.ok()) << drafter.status();
  return drafter.ok() ? *std::move(drafter) : nullptr;
}

// As the model itself, and as others that know fewer tokens, or more, and are hardly ever right.
class DraftModelBits : public ::testing::TestWithParam<const char*> {};

TEST_P(DraftModelBits, GuessesChangeNoTokenAndNoBit) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kFp32, Precision::kBf16});
  const TestModel other = LoadTestModel(GoldenModelPath("llama_tied"), "", 2, {Precision::kBf16});
  std::vector<Request> requests;
  for (const ExecutionProfile& profile : SupportedProfiles(*test.model, test.model->precisions())) {
    for (Request& request : Variants(profile, test.model->config().vocab_size)) requests.push_back(std::move(request));
  }
  EngineOptions options;
  EngineClient plain(test.model.get(), options);
  std::vector<Response> expected;
  for (const Request& request : requests) expected.push_back(plain.Run(request));
  options.max_drafts = 5;
  options.adapt_drafts = false;
  for (const Model* draft : {test.model.get(), other.model.get()}) {
    EngineOptions draft_options;
    draft_options.max_sequences = 32;
    draft_options.kv_memory_bytes = size_t{1} << 20;
    EngineClient guessing(test.model.get(), options, DraftBy(*draft, *test.model, draft_options));
    std::vector<std::shared_ptr<RecordingSink>> together;
    for (const Request& request : requests) together.push_back(guessing.Submit(request));
    for (size_t i = 0; i < requests.size(); ++i) {
      SCOPED_TRACE("request " + std::to_string(i));
      ExpectSame(requests[i], together[i]->Wait(), expected[i]);
    }
    const EngineStats stats = guessing.engine().stats();
    EXPECT_GT(stats.draft_tokens, stats.accepted_tokens);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, DraftModelBits,
                         ::testing::Values("gpt2_tiny", "llama_gqa", "mistral_window", "qwen2_moe_tiny",
                                           "deepseek_v3_tiny", "gemma4_tiny", "gemma4_e_tiny"),
                         [](const auto& test) { return test.param; });

// The model itself is always right without sampling, also behind a prompt of several passes.
TEST(DraftModels, SaveStepsAndFollowSequencesThatComeAndGo) {
  const TestModel test = LoadTestModel(GoldenModelPath("llama_gqa"), "", 2, {Precision::kFp32});
  EngineOptions draft_options;
  draft_options.max_sequences = 2;
  draft_options.kv_memory_bytes = size_t{1} << 20;
  EngineOptions options;
  options.max_drafts = 4;
  options.adapt_drafts = false;
  EngineClient client(test.model.get(), options, DraftBy(*test.model, *test.model, draft_options));
  Request request;
  request.profile.precision = Precision::kFp32;
  request.sampling.temperature = 0.0F;
  request.stopping.max_tokens = 40;
  request.stopping.ignore_eos = true;
  std::mt19937 random(5);
  for (const int32_t prompt_len : {1, 20, 60, 20}) {
    request.prompt.clear();
    for (int32_t i = 0; i < prompt_len; ++i) {
      request.prompt.push_back(static_cast<TokenId>(random() % static_cast<uint32_t>(test.model->config().vocab_size)));
    }
    const Response response = client.Run(request);
    EXPECT_EQ(response.tokens.size(), 40U);
    EXPECT_GT(response.finish.accepted_tokens, 20);
  }
  client.engine().Stop();
  EXPECT_LT(client.engine().stats().steps, 4 * 20U);
}

TEST(DraftModels, WithRecurrentLayersAreRefused) {
  const TestModel test = LoadTestModel(GoldenModelPath("qwen35_tiny"), "", 2, {Precision::kBf16});
  EXPECT_EQ(DraftModel::Create(test.model.get(), {}, 100).status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace dunlin::engine
