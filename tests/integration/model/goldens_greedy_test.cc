// SPDX-License-Identifier: Apache-2.0
// 64 greedy tokens of the engine in FP32 against `transformers`: cold, behind a prefix hit, and in odd prefill chunks.
#include <gtest/gtest.h>

#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kClearGap = 1e-3F;  // below it the reference itself may fall either way

Request GreedyRequest(const GoldenPrompt& prompt, const ExecutionProfile& profile) {
  Request request;
  request.prompt = prompt.tokens;
  request.sampling.temperature = 0.0F;
  request.stopping.max_tokens = static_cast<int32_t>(prompt.greedy_tokens.size());
  request.stopping.ignore_eos = true;
  request.profile = profile;
  return request;
}

void ExpectGreedyTokens(const Response& response, const GoldenPrompt& prompt) {
  ASSERT_EQ(response.tokens.size(), prompt.greedy_tokens.size());
  EXPECT_EQ(response.finish.reason, FinishReason::kLength);
  for (size_t step = 0; step < prompt.greedy_tokens.size() && prompt.greedy_gaps[step] >= kClearGap; ++step) {
    ASSERT_EQ(response.tokens[step].token_id, prompt.greedy_tokens[step]) << "step " << step;
  }
}

class GoldensGreedy : public ::testing::TestWithParam<std::tuple<Place, std::string>> {};

TEST_P(GoldensGreedy, MatchTransformersColdCachedAndChunked) {
  const auto& [place, name] = GetParam();
  std::string reason;
  auto device = OpenPlace(place, 2, &reason);
  if (device == nullptr) GTEST_SKIP() << reason;
  const std::string path = GoldenModelPath(name);
  if (!Serves(*device, path, &reason)) GTEST_SKIP() << reason;
  const std::vector<GoldenPrompt> prompts = ReadGoldens(path);
  const TestModel test = LoadTestModel(path, std::move(device), {Precision::kFp32});
  const std::vector<ExecutionProfile> profiles = SupportedProfiles(*test.model, {Precision::kFp32});
  ASSERT_FALSE(profiles.empty());
  for (int32_t budget : {512, 13, 7}) {  // tokens per step: whole prompts, and two odd chunks
    EngineOptions options;
    options.max_tokens_per_step = budget;
    EngineClient client(test.model.get(), options);
    for (const ExecutionProfile& profile : profiles) {
      for (const GoldenPrompt& prompt : prompts) {
        SCOPED_TRACE(std::string(kernels::Name(profile.attention_backend)) + " prompt of " +
                     std::to_string(prompt.tokens.size()) + " budget " + std::to_string(budget));
        const Request request = GreedyRequest(prompt, profile);
        const Response cold = client.Run(request);
        ExpectGreedyTokens(cold, prompt);
        const Response cached = client.Run(request);
        ExpectGreedyTokens(cached, prompt);
        EXPECT_EQ(cached.finish.cached_tokens > 0, prompt.tokens.size() > 1);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldensGreedy,
                         ::testing::Combine(::testing::ValuesIn(BestCpuPlace()),
                                            ::testing::ValuesIn(GoldenModelNames())),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Fake, GoldensGreedy,
                         ::testing::Combine(::testing::ValuesIn(FakePlaces()), ::testing::ValuesIn(GoldenModelNames())),
                         PlacedModelName);
INSTANTIATE_TEST_SUITE_P(Cuda, GoldensGreedy,
                         ::testing::Combine(::testing::ValuesIn(CudaPlaces()), ::testing::ValuesIn(GoldenModelNames())),
                         PlacedModelName);

}  // namespace
}  // namespace dunlin::engine
