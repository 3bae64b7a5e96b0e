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
