// SPDX-License-Identifier: Apache-2.0
// Greedy tokens of the engine in FP32 with penalties, bad words, suppressed tokens and minimum lengths against the
// generate() of `transformers` (tests/golden/models/make_processor_goldens.py); and the outputs of one request against
// requests with their seeds.
#include <gtest/gtest.h>

#include <fstream>

#include "engine/sampling/sample_rows.h"
#include "nlohmann/json.hpp"
#include "tests/integration/model/engine_client.h"
#include "tests/integration/model/request_mix.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

Request RequestOf(const json& golden, const ExecutionProfile& profile) {
  Request request;
  request.profile = profile;
  golden.at("prompt").get_to(request.prompt);
  SamplingParams& sampling = request.sampling;
  sampling.temperature = 0.0F;
  sampling.repetition_penalty = golden.value("repetition_penalty", 1.0F);
  sampling.bad_words = golden.value("bad_words_ids", sampling.bad_words);
  sampling.suppressed_token_ids = golden.value("suppress_tokens", sampling.suppressed_token_ids);
  sampling.begin_suppressed_token_ids = golden.value("begin_suppress_tokens", sampling.begin_suppressed_token_ids);
  StoppingParams& stopping = request.stopping;
  stopping.max_tokens = 32;
  stopping.min_tokens = golden.value("min_new_tokens", 0);
  stopping.ignore_eos = true;
  if (golden.contains("eos_token_id")) stopping.stop_token_ids = {golden.at("eos_token_id").get<TokenId>()};
  return request;
}

class GoldenProcessors : public ::testing::TestWithParam<std::string> {};

TEST_P(GoldenProcessors, MatchTransformers) {
  std::ifstream file(SourcePath("tests/golden/models/processors.json"));
  const json goldens = json::parse(file);
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kFp32});
  EngineClient client(test.model.get(), EngineOptions());
  int cases = 0;
  for (const ExecutionProfile& profile : SupportedProfiles(*test.model, {Precision::kFp32})) {
    for (const json& golden : goldens.at("cases")) {
      if (golden.at("model") != GetParam()) continue;
      SCOPED_TRACE(golden.at("name").get<std::string>() + ", prompt of " + std::to_string(golden["prompt"].size()));
      ++cases;
      const std::vector<TokenId> tokens = TokenIds(client.Run(RequestOf(golden, profile)));
      const auto expected = golden.at("tokens").get<std::vector<TokenId>>();
      const auto clear = golden.at("clear").get<size_t>();
      if (clear == expected.size()) {
        EXPECT_EQ(tokens, expected);
        continue;
      }
      ASSERT_GE(tokens.size(), clear);
      for (size_t i = 0; i < clear; ++i) EXPECT_EQ(tokens[i], expected[i]) << i;
    }
  }
  EXPECT_GE(cases, 16);
}

TEST_P(GoldenProcessors, OutputsOfARequestAreThoseOfRequestsWithTheirSeeds) {
  const TestModel test = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kFp32});
  EngineClient client(test.model.get(), EngineOptions());
  Request request;
  request.prompt = {1, 2, 3, 4, 5};
  request.profile = SupportedProfiles(*test.model, {Precision::kFp32}).front();
  request.sampling.logprobs = 2;
  request.stopping.max_tokens = 24;
  request.stopping.ignore_eos = true;
  for (const uint64_t seed : {uint64_t{1}, ~uint64_t{0}}) {
    std::vector<std::shared_ptr<RecordingSink>> outputs;  // in the same batch, and of one prompt
    for (int32_t k = 0; k < kMaxOutputsPerRequest; ++k) {
      request.output_index = k;
      request.sampling.seed = seed;
      outputs.push_back(client.Submit(request));
    }
    for (int32_t k = 0; k < kMaxOutputsPerRequest; ++k) {
      const Response& of_many = outputs[static_cast<size_t>(k)]->Wait();
      request.output_index = 0;
      request.sampling.seed = SeedOfOutput(seed, k);
      std::string why;
      EXPECT_TRUE(SameBits(of_many, client.Run(request), &why)) << k << ": " << why;
      EXPECT_EQ(k == 0, TokenIds(of_many) == TokenIds(outputs[0]->Wait())) << k;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, GoldenProcessors, ::testing::Values("gpt2_tiny", "llama_gqa"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
