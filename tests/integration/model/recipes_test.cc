// SPDX-License-Identifier: Apache-2.0
// FP8 recipes on whole models: how far each is from FP32, which of them let neighbours in, and what delayed settles to.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

using Logits = std::vector<std::vector<float>>;

double Cosine(const Logits& a, const Logits& b) {
  double dot = 0;
  double square_a = 0;
  double square_b = 0;
  for (size_t row = 0; row < a.size(); ++row) {
    for (size_t i = 0; i < a[row].size(); ++i) {
      const double x = a[row][i];
      const double y = b[row][i];
      dot += x * y;
      square_a += x * x;
      square_b += y * y;
    }
  }
  return dot / std::sqrt(square_a * square_b);
}

class Recipes : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    const std::string path = GoldenModelPath("llama_gqa");
    tokens_ = ReadGoldens(path).back().tokens;
    tokens_.resize(std::min<size_t>(tokens_.size(), kMaxLogitRows));  // the head's rows are one call, as a layer's are
    test_ = LoadTestModel(path, GetParam(), 2, {Precision::kFp32, Precision::kFp8});
  }

  DirectRun Run(Fp8Recipe recipe, AmaxComputeAlgo algo = AmaxComputeAlgo::kMax) const {
    DirectRunOptions options;
    options.fp8.recipe = recipe;
    options.fp8.amax_compute_algo = algo;
    if (recipe == Fp8Recipe::kStatic) options.input_scales = SettledScales();
    return Run({DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp8, recipe}, options);
  }
  // As a calibration would: what delayed scaling comes to over the text, frozen.
  std::vector<float> SettledScales() const {
    DirectRun run = Run(Fp8Recipe::kDelayed);
    for (int i = 0; i < 3; ++i) run.Logits(tokens_, num_tokens());
    return run.InputScales();
  }
  DirectRun Run(const ExecutionProfile& profile, const DirectRunOptions& options) const {
    return DirectRun(test_.model.get(), profile, num_tokens() + 8, options);
  }
  Logits Fp32Logits() const {
    return Run({DeviceKind::kCpu, AttentionBackend::kFlash, Precision::kFp32}, {}).Logits(tokens_, num_tokens());
  }
  int32_t num_tokens() const { return static_cast<int32_t>(tokens_.size()); }

  std::vector<TokenId> tokens_;
  TestModel test_;
};

// The tiny model's random weights make much of a small change; what a shared scale costs is held to what a scale per
// token does.
TEST_P(Recipes, SharedScalesCostLittleMoreThanPerToken) {
  const Logits exact = Fp32Logits();
  const double per_token = 1.0 - Cosine(Run(Fp8Recipe::kPerToken).Logits(tokens_, num_tokens()), exact);
  EXPECT_LT(per_token, 0.05);
  EXPECT_GT(per_token, 1e-4) << "three bits of mantissa";
  for (const Fp8RecipeTraits& row : kFp8RecipeTable) {
    DirectRun run = Run(row.recipe);
    for (int i = 0; i < 3; ++i) run.Logits(tokens_, num_tokens());  // delayed starts from a scale of 1
    const double loss = 1.0 - Cosine(run.Logits(tokens_, num_tokens()), exact);
    std::printf("%s: 1 - cosine is %.6f\n", row.name, loss);
    EXPECT_LT(loss, 1.5 * per_token) << row.name;
  }
}

TEST_P(Recipes, OnlyTheDeterministicOnesGiveTheSameBitsInEveryChunking) {
  for (const Fp8RecipeTraits& row : kFp8RecipeTable) {
    DirectRun run = Run(row.recipe);
    const Logits whole = run.Logits(tokens_, num_tokens());
    EXPECT_EQ(run.Logits(tokens_, 5) == whole, row.deterministic) << row.name;
  }
}

// Of equal steps, the last one's amaxes are this one's: input by input, delayed scaling becomes current scaling.
TEST_P(Recipes, DelayedConvergesToCurrentOverEqualSteps) {
  const Logits current = Run(Fp8Recipe::kCurrent).Logits(tokens_, num_tokens());
  DirectRun run = Run(Fp8Recipe::kDelayed, AmaxComputeAlgo::kMostRecent);
  EXPECT_NE(run.Logits(tokens_, num_tokens()), current);
  for (int32_t i = 0; i < NumInputs(test_.model->config()); ++i) run.Logits(tokens_, num_tokens());
  EXPECT_EQ(run.Logits(tokens_, num_tokens()), current);
}

TEST(SharedScales, AreRefusedWithExpertsAndWithLatentAttention) {
  const auto expect_refused = [](const char* name, const std::string& reason) {
    const TestModel test = LoadTestModel(GoldenModelPath(name), "", 1, {Precision::kFp8});
    Fp8Options options;
    EXPECT_TRUE(InputConstants(options, *test.model).ok()) << "per token";
    options.recipe = Fp8Recipe::kCurrent;
    const absl::Status status = InputConstants(options, *test.model).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_NE(status.message().find(reason), absl::string_view::npos) << status;
  };
  expect_refused("mixtral_tiny", "but mixtral has experts, whose inputs");
  expect_refused("youtu_tiny", "but youtu has latent attention, whose products");
}

INSTANTIATE_TEST_SUITE_P(Variants, Recipes, ::testing::ValuesIn(kernels::AvailableCpuVariants()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
