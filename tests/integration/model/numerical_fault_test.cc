// SPDX-License-Identifier: Apache-2.0
// A NaN stays with the request that met it (reliability E5): its neighbours keep their bits, and what it computed is
// never found in the prefix cache.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "nlohmann/json.hpp"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr TokenId kPoisoned = 5;

// A copy of gpt2_untied (FP16, untied head) in which the embedding of token 5 is NaN.
std::string PoisonedModelPath() {
  const std::filesystem::path path = std::filesystem::path(::testing::TempDir()) / "dunlin_poisoned_model";
  std::filesystem::remove_all(path);
  std::filesystem::copy(GoldenModelPath("gpt2_untied"), path);
  std::ifstream in(path / "model.safetensors", std::ios::binary);
  std::string bytes((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  in.close();
  uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  const nlohmann::json header = nlohmann::json::parse(bytes.substr(8, header_bytes));
  for (const auto& [name, tensor] : header.items()) {
    if (name.find("wte.weight") == std::string::npos) continue;
    const size_t row_bytes = tensor.at("shape").at(1).get<size_t>() * 2;
    const size_t row = 8 + header_bytes + tensor.at("data_offsets").at(0).get<size_t>() + kPoisoned * row_bytes;
    for (size_t i = 0; i < row_bytes; i += 2) std::memcpy(&bytes[row + i], "\x00\x7e", 2);  // FP16 NaN
  }
  std::ofstream(path / "model.safetensors", std::ios::binary) << bytes;
  return path.string();
}

Request RequestOf(std::vector<TokenId> prompt, const ExecutionProfile& profile) {
  Request request;
  request.prompt = std::move(prompt);
  request.profile = profile;
  request.sampling.logprobs = 2;
  request.sampling.logit_bias = {{kPoisoned, -100.0F}};  // nobody draws the poisoned token
  request.stopping.max_tokens = 12;
  request.stopping.ignore_eos = true;
  return request;
}

std::vector<TokenId> PromptWithout(TokenId avoided, int32_t length, int32_t step) {
  std::vector<TokenId> prompt;
  for (int32_t i = 0; i < length; ++i) prompt.push_back((i * step + 7) % 60);
  for (TokenId& token : prompt) token = token == avoided ? 6 : token;
  return prompt;
}

class NumericalFault : public ::testing::TestWithParam<AttentionBackend> {};

TEST_P(NumericalFault, EndsOnlyTheAffectedRequest) {
  const TestModel test = LoadTestModel(PoisonedModelPath(), "", 2, kAllPrecisions);
  for (Precision precision : kAllPrecisions) {
    SCOPED_TRACE(kernels::Name(precision));
    const ExecutionProfile profile{DeviceKind::kCpu, GetParam(), precision};
    // The poisoned request shares 32 tokens, whole pages in every precision, with its neighbours.
    const std::vector<TokenId> shared = PromptWithout(kPoisoned, 32, 11);
    std::vector<TokenId> poisoned = shared;
    poisoned.push_back(kPoisoned);
    for (int i = 0; i < 20; ++i) poisoned.push_back(i + 10);
    std::vector<Request> neighbours;
    for (int i = 1; i <= 7; ++i) {
      std::vector<TokenId> prompt = i % 2 == 0 ? shared : std::vector<TokenId>{};
      for (TokenId token : PromptWithout(kPoisoned, 5 + i, i)) prompt.push_back(token);
      neighbours.push_back(RequestOf(std::move(prompt), profile));
    }

    EngineClient alone(test.model.get(), {});
    std::vector<Response> expected;
    for (const Request& request : neighbours) expected.push_back(alone.Run(request));

    EngineOptions options;
    options.max_tokens_per_step = 23;
    EngineClient client(test.model.get(), options);
    for (int round = 0; round < 3; ++round) {
      const auto bad = client.Submit(RequestOf(poisoned, profile));
      std::vector<std::shared_ptr<RecordingSink>> sinks;
      for (const Request& request : neighbours) sinks.push_back(client.Submit(request));
      EXPECT_EQ(bad->Wait().finish.reason, FinishReason::kNumerical);
      EXPECT_TRUE(bad->Wait().tokens.empty());
      // Never more than what is sound: the two, three or four pages before the poisoned token.
      EXPECT_LE(bad->Wait().finish.cached_tokens, 32);
      for (size_t i = 0; i < sinks.size(); ++i) {
        std::string why;
        EXPECT_TRUE(SameBits(sinks[i]->Wait(), expected[i], &why)) << "neighbour " << i << ": " << why;
      }
    }
  }
}

TEST_P(NumericalFault, AlsoEndsARequestThatOnlyScoresItsPrompt) {
  const TestModel test = LoadTestModel(PoisonedModelPath(), "", 2, {Precision::kFp32});
  EngineOptions options;
  options.max_tokens_per_step = 4;
  EngineClient client(test.model.get(), options);
  Request request =
      RequestOf({1, 2, 3, kPoisoned, 8, 9, 10, 11, 12, 13}, {DeviceKind::kCpu, GetParam(), Precision::kFp32});
  request.sampling.prompt_logprobs = 0;
  const Response response = client.Run(request);
  EXPECT_EQ(response.finish.reason, FinishReason::kNumerical);
  EXPECT_EQ(response.prompt.size(), 3U);  // positions 1, 2, 3 stand before the poison
}

INSTANTIATE_TEST_SUITE_P(Backends, NumericalFault, ::testing::ValuesIn(kernels::kAutoOrder),
                         [](const auto& test) { return kernels::Name(test.param); });

}  // namespace
}  // namespace dunlin::engine
