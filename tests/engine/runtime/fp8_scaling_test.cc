// SPDX-License-Identifier: Apache-2.0
#include "engine/layers/fp8_scaling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "engine/request/options.h"
#include "engine/runtime/step_buffers.h"
#include "tests/engine/runtime/fake_device.h"
#include "tests/engine/runtime/small_models.h"

namespace dunlin::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Fp8ScalingTest : public ::testing::Test {
 protected:
  Fp8Scaling Make(const std::vector<float>& constants = {}) {
    Plan();
    absl::StatusOr<Fp8Scaling> scaling =
        Fp8Scaling::Create(options_.fp8, kInputs, constants, device_.get(), buffers_->floats(BufferId::kFp8Scales));
    EXPECT_TRUE(scaling.ok()) << scaling.status();
    return *std::move(scaling);
  }
  void Plan() {
    const ModelConfig config = SmallGpt2Config();
    const MemoryPlan plan = *PlanMemory(config, {Precision::kBf16, Precision::kFp8}, *device_, options_);
    buffers_ = *StepBuffers::Allocate(plan, config.position_constants(), device_.get());
  }
  kernels::Activation Applied(const Fp8Scaling& scaling, int32_t input) {
    kernels::Activation activation;
    activation.precision = Precision::kFp8;
    scaling.Apply(input, &activation);
    return activation;
  }

  static constexpr int32_t kInputs = 9;  // four of each of two layers, and the head's
  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  EngineOptions options_;
  std::unique_ptr<StepBuffers> buffers_;
};

TEST_F(Fp8ScalingTest, EveryInputOfAModelHasItsOwnIndex) {
  const ModelConfig config = SmallGpt2Config();
  EXPECT_EQ(NumInputs(config), kInputs);
  EXPECT_EQ(InputIndex(0, LayerInput::kQkv), 0);
  EXPECT_EQ(InputIndex(1, LayerInput::kMlpDown), 7);
  EXPECT_EQ(HeadInputIndex(config), 8);
}

TEST_F(Fp8ScalingTest, RecipesThatSeeNeighboursAreRefusedWhileDeterministic) {
  for (const Fp8RecipeTraits& row : kFp8RecipeTable) {
    options_.fp8.recipe = row.recipe;
    EXPECT_TRUE(CheckFp8Recipe(options_.fp8, false).ok());
    const absl::Status status = CheckFp8Recipe(options_.fp8, true);
    EXPECT_EQ(status.ok(), row.deterministic) << row.name;
    if (row.deterministic) continue;
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr(std::string("models[].fp8.recipe is ") + row.name),
                                                     HasSubstr("models[].deterministic")));
  }
  EXPECT_EQ(Traits(Fp8Recipe::kStatic).deterministic, true);
  EXPECT_EQ(Traits(Fp8Recipe::kDelayed).deterministic, false);
}

TEST_F(Fp8ScalingTest, PerTokenNeedsNoMemoryAndChangesNothing) {
  const Fp8Scaling scaling = Make();
  EXPECT_EQ(buffers_->bytes(BufferId::kFp8Scales), 0U);
  const kernels::Activation activation = Applied(scaling, 3);
  EXPECT_EQ(activation.scaling, kernels::InputScaling::kPerRow);
  EXPECT_EQ(activation.shared_scale, nullptr);
}

TEST_F(Fp8ScalingTest, OnlyFp8InputsShareAScale) {
  options_.fp8.recipe = Fp8Recipe::kCurrent;
  const Fp8Scaling scaling = Make();
  kernels::Activation wide;
  wide.precision = Precision::kBf16;
  scaling.Apply(0, &wide);
  EXPECT_EQ(wide.shared_scale, nullptr);
  const kernels::Activation activation = Applied(scaling, 1);
  EXPECT_EQ(activation.scaling, kernels::InputScaling::kCurrent);
  EXPECT_EQ(activation.shared_scale, buffers_->floats(BufferId::kFp8Scales) + 1);
}

TEST_F(Fp8ScalingTest, StaticTakesTheModelsConstants) {
  options_.fp8.recipe = Fp8Recipe::kStatic;
  std::vector<float> constants;
  for (int32_t i = 0; i < kInputs; ++i) constants.push_back(0.5F + static_cast<float>(i));
  const Fp8Scaling scaling = Make(constants);
  EXPECT_EQ(*Applied(scaling, 8).shared_scale, 8.5F);
  EXPECT_EQ(Applied(scaling, 8).scaling, kernels::InputScaling::kGiven);
  EXPECT_EQ(Applied(scaling, 8).amax, nullptr);
}

TEST_F(Fp8ScalingTest, DelayedUsesTheAmaxesOfEarlierSubBatches) {
  options_.fp8.recipe = Fp8Recipe::kDelayed;
  options_.fp8.amax_history_len = 2;
  Fp8Scaling scaling = Make();
  EXPECT_EQ(*Applied(scaling, 4).shared_scale, 1.0F);
  std::vector<float> scales;
  for (const float amax : {56.0F, 28.0F, 28.0F, 0.0F}) {
    EXPECT_EQ(*Applied(scaling, 4).amax, 0.0F);
    *Applied(scaling, 4).amax = amax;  // as a kernel does
    ASSERT_TRUE(scaling.EndSubBatch().ok());
    scales.push_back(*Applied(scaling, 4).shared_scale);
  }
  EXPECT_EQ(scales, (std::vector<float>{0.125F, 0.125F, 0.0625F, 0.0625F}));
  EXPECT_EQ(*Applied(scaling, 5).shared_scale, 1.0F) << "an input that never ran";
}

// The scale leaves room for values 2^margin times larger than the largest one seen.
TEST_F(Fp8ScalingTest, DelayedMultipliesTheScaleByTwoToTheMargin) {
  options_.fp8.recipe = Fp8Recipe::kDelayed;
  std::vector<float> scales;
  for (const int32_t margin : {0, 1, 3, kMaxMargin}) {
    options_.fp8.margin = margin;
    Fp8Scaling scaling = Make();
    *Applied(scaling, 4).amax = 56.0F;
    ASSERT_TRUE(scaling.EndSubBatch().ok());
    scales.push_back(*Applied(scaling, 4).shared_scale / 0.125F);
  }
  EXPECT_EQ(scales, (std::vector<float>{1.0F, 2.0F, 8.0F, std::ldexp(1.0F, kMaxMargin)}));
}

}  // namespace
}  // namespace dunlin::engine
