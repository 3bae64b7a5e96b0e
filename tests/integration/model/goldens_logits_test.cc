// SPDX-License-Identifier: Apache-2.0
// Logits of the FP32 path against `transformers`, for every model, attention backend and CPU variant: whole prompts,
// prompts in odd chunks, token by token, and behind pages that an earlier run computed.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

constexpr float kTolerance = 1e-4F;

// The states of the recurrent layers in a slot, as a golden has them: the heads' matrices without blocks of columns.
std::vector<std::vector<float>> PlainStates(const ModelConfig& config, const std::vector<float>& slot) {
  std::vector<std::vector<float>> states;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    if (config.layer_state_floats(layer) == 0) continue;
    const auto begin = slot.begin() + config.state_offset(layer);
    const bool is_delta = config.mixer(layer) == MixerKind::kDelta;
    const int64_t rows = is_delta ? config.delta.conv_state_floats() : config.layer_state_floats(layer);
    std::vector<float>& state = states.emplace_back(begin, begin + rows);
    const kernels::DeltaShape& shape = config.delta.shape;
    for (int64_t i = 0; is_delta && i < int64_t{shape.value_heads} * shape.key_dim; ++i) {
      const auto head = begin + rows + i / shape.key_dim * kernels::DeltaHeadFloats(shape);
      for (int64_t column = 0; column < shape.value_dim; ++column) {
        const int64_t block = column / kernels::kStateLanes * shape.key_dim + i % shape.key_dim;
        state.push_back(head[block * kernels::kStateLanes + column % kernels::kStateLanes]);
      }
    }
  }
  return states;
}

class GoldensLogits : public ::testing::TestWithParam<std::string> {
 protected:
  void Check(const Model* model, AttentionBackend backend, const GoldenPrompt& prompt) {
    const ExecutionProfile profile{DeviceKind::kCpu, backend, Precision::kFp32};
    const auto num_tokens = static_cast<int32_t>(prompt.tokens.size());
    DirectRun run(model, profile, std::max(num_tokens, 8));
    const auto whole = run.Logits(prompt.tokens, num_tokens);
    for (const GoldenLogits& golden : prompt.logits) {
      const float error = LargestError(whole[static_cast<size_t>(golden.position)], golden.values);
      EXPECT_LE(error, kTolerance) << "position " << golden.position;
      worst_ = std::max(worst_, error);
    }
    if (!prompt.states.empty()) ExpectStates(PlainStates(model->config(), run.State()), prompt.states);
    // Every other way to the same position gives the same bits, so it need not be compared with the golden again.
    for (int32_t chunk_size : {1, 7, 13}) EXPECT_EQ(run.Logits(prompt.tokens, chunk_size), whole) << chunk_size;
    if (model->config().is_recurrent()) {
      for (int32_t chunk_size : {2, 37, 64, 65}) EXPECT_EQ(run.Logits(prompt.tokens, chunk_size), whole) << chunk_size;
      return;  // pages alone are not enough to go on from
    }
    for (int32_t cached = run.tokens_per_page(); cached < num_tokens; cached += 2 * run.tokens_per_page()) {
      const auto tail = run.Logits(prompt.tokens, 5, cached);
      EXPECT_TRUE(std::equal(tail.begin(), tail.end(), whole.begin() + cached, whole.end())) << "cached " << cached;
    }
  }
  static void ExpectStates(const std::vector<std::vector<float>>& states,
                           const std::vector<std::vector<float>>& golden) {
    ASSERT_EQ(states.size(), golden.size());
    for (size_t i = 0; i < states.size(); ++i) {
      EXPECT_LE(LargestError(states[i], golden[i]), kTolerance) << "state of recurrent layer " << i;
    }
  }
  float worst_ = 0.0F;
};

TEST_P(GoldensLogits, MatchTransformersInEveryBackendChunkingAndVariant) {
  const std::string path = GoldenModelPath(GetParam());
  const std::vector<GoldenPrompt> prompts = ReadGoldens(path);
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    const TestModel test = LoadTestModel(path, variant, 2, {Precision::kFp32});
    for (AttentionBackend backend : kernels::kAutoOrder) {
      for (const GoldenPrompt& prompt : prompts) {
        SCOPED_TRACE(variant + " " + kernels::Name(backend) + " prompt of " + std::to_string(prompt.tokens.size()));
        Check(test.model.get(), backend, prompt);
      }
    }
  }
  RecordProperty("largest_error", std::to_string(worst_));
  std::printf("largest error %g\n", static_cast<double>(worst_));
}

INSTANTIATE_TEST_SUITE_P(Models, GoldensLogits, ::testing::ValuesIn(GoldenModelNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
