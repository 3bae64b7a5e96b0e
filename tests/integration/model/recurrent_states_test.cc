// SPDX-License-Identifier: Apache-2.0
// States of recurrent models in an engine: requests that wait for a slot, that are preempted and begin again, and
// outputs of one prompt, each against the request alone.
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
constexpr int32_t kOutput = 96;  // 145 tokens in all: 19 pages of FP32

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

  // Pages and states that the KV memory has room for.
  EngineOptions Options(size_t pages, size_t states) const {
    const ModelConfig& config = model().config();
    EngineOptions options;
    options.max_sequences = 4;
    options.max_tokens_per_step = 13;
    options.kv_memory_bytes = pages * KvLayoutOf(config, Precision::kFp32).page_bytes + states * StateBytesOf(config);
    return options;
  }

  // Runs all at once, and returns how often one was preempted.
  uint64_t RunTogether(const std::vector<Request>& requests, const EngineOptions& options) const {
    EngineClient alone(&model(), EngineOptions());
    EngineClient together(&model(), options);
    std::vector<std::shared_ptr<RecordingSink>> sinks;
    for (const Request& request : requests) sinks.push_back(together.Submit(request));
    for (size_t i = 0; i < requests.size(); ++i) {
      std::string why;
      EXPECT_TRUE(SameBits(sinks[i]->Wait(), alone.Run(requests[i]), &why)) << "request " << i << ": " << why;
      EXPECT_EQ(sinks[i]->Wait().finish.cached_tokens, 0);
    }
    together.engine().Stop();
    EXPECT_EQ(together.engine().stats().pages_used, 0);
    EXPECT_EQ(together.engine().stats().prefix_queries, 0U);
    return together.engine().stats().preemptions;
  }

 private:
  const TestModel test_ = LoadTestModel(GoldenModelPath(GetParam()), "", 2, {Precision::kFp32});
};

TEST_P(RecurrentStates, APreemptedRequestBeginsAgainAndHasTheSameBits) {
  const std::vector<Request> requests = {Ask(1), Ask(2), Ask(3), Ask(4)};
  EXPECT_GT(RunTogether(requests, Options(24, 3)), 0U);
}

TEST_P(RecurrentStates, RequestsWaitForTheOnlySlot) {
  EXPECT_EQ(RunTogether({Ask(1), Ask(2), Ask(3)}, Options(20, 1)), 0U);
}

TEST_P(RecurrentStates, EachOutputOfAPromptHasAStateOfItsOwn) {
  EXPECT_EQ(RunTogether({Ask(1, 0), Ask(1, 1), Ask(1, 2)}, Options(100, 4)), 0U);
}

INSTANTIATE_TEST_SUITE_P(Models, RecurrentStates,
                         ::testing::Values("qwen35_tiny", "qwen35moe_tiny", "qwen3next_tiny", "lfm2_tiny",
                                           "lfm2moe_tiny"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
