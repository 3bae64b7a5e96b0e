// SPDX-License-Identifier: Apache-2.0
// The modules' two executions: eager, an operation a step, gives the bits of fused. They are equal, not close, because
// activations are FP32 between operations on the CPU: an epilogue adds the same numbers in the same order, and a row is
// rounded from the same floats. On a device that rounds a GEMM's output, the bound would be that dtype's.
#include <gtest/gtest.h>

#include "tests/integration/model/direct_run.h"
#include "tests/integration/model/golden_file.h"
#include "tests/integration/model/test_model.h"

namespace dunlin::engine {
namespace {

class Modules : public ::testing::TestWithParam<std::string> {
 protected:
  static std::vector<std::vector<float>> Logits(const Model* model, const ExecutionProfile& profile,
                                                const DirectRunOptions& options, const std::vector<TokenId>& tokens) {
    DirectRun run(model, profile, static_cast<int32_t>(tokens.size()) + 8, options);
    run.Logits(tokens, 9);  // gives the recipe delayed a history
    return run.Logits(tokens, 11);
  }

  static void ExpectEqualExecutions(const Model* model, const ExecutionProfile& profile, DirectRunOptions options,
                                    const std::vector<TokenId>& tokens) {
    options.execution = ExecutionMode::kFused;
    const auto fused = Logits(model, profile, options, tokens);
    options.execution = ExecutionMode::kEager;
    EXPECT_EQ(Logits(model, profile, options, tokens), fused);
  }
};

TEST_P(Modules, EagerAndFusedGiveTheSameBitsInEveryPrecisionRecipeAndVariant) {
  const std::string path = GoldenModelPath(GetParam());
  const std::vector<TokenId> tokens = ReadGoldens(path).back().tokens;
  for (const std::string& variant : kernels::AvailableCpuVariants()) {
    const TestModel test = LoadTestModel(path, variant, 2, kAllPrecisions);
    for (const Precision precision : kAllPrecisions) {
      for (const Fp8RecipeTraits& recipe : kFp8RecipeTable) {
        if (precision != Precision::kFp8 && recipe.recipe != Fp8Recipe::kPerToken) continue;
        SCOPED_TRACE(variant + " " + kernels::Name(precision) + " " + recipe.name);
        DirectRunOptions options;
        options.fp8.recipe = recipe.recipe;
        options.input_scales.assign(static_cast<size_t>(NumInputs(test.model->config())), 0.02F);
        const ExecutionProfile profile{DeviceKind::kCpu, AttentionBackend::kFlash, precision, recipe.recipe};
        ExpectEqualExecutions(test.model.get(), profile, options, tokens);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Modules, ::testing::ValuesIn(GoldenModelNames()),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace dunlin::engine
