// SPDX-License-Identifier: Apache-2.0
// Steps of prompts with images that rotate by row and column: staged positions, and the rotations of the images' rows.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "engine/request/image_positions.h"
#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kPromptLen = 18;

TEST(ImagePositions, GoOnAfterTheLongerSide) {
  EXPECT_EQ(ShiftOf({.first = 3, .count = 12}), 0);
  EXPECT_EQ(ShiftOf({.first = 3, .count = 12, .image_columns = 4}), 8);
  EXPECT_EQ(ShiftOf({.first = 3, .count = 12, .image_columns = 2}), 6);
  EXPECT_EQ(ShiftOf({.first = 3, .count = 12, .image_columns = 12}), 0);
  EXPECT_EQ(ShiftOf({.first = 3, .count = 12, .image_columns = 1}), 0);
  PromptRows rows;
  rows.spans = {{0, 4, 2}, {4, 9, 3}, {20, 5, 0}};
  const struct {
    int32_t index;
    int32_t shift;
  } cases[] = {{0, 0}, {3, 0}, {4, 2}, {12, 2}, {13, 8}, {22, 8}, {1000, 8}};
  for (const auto& each : cases) EXPECT_EQ(PositionShift(rows, each.index), each.shift) << each.index;
}

ModelConfig ConfigOfImages() {
  ModelConfig config = SmallLlamaConfig();
  config.rotary.axes = {RotationAxis::kColumn, RotationAxis::kSequence, RotationAxis::kRow};
  config.rotary.attention_factors = {1.5F};
  return config;
}

EngineOptions OptionsOfImages() {
  EngineOptions options;
  options.max_sequences = 4;
  options.max_tokens_per_step = 32;
  return options;
}

// Images of 2 x 3 tokens at 2 and of 3 x 2 at 10, in a prompt of 18.
class ImagesOfAStep : public ::testing::Test {
 protected:
  ImagesOfAStep() {
    rows_.spans = {{2, 6, 3}, {10, 6, 2}};
    rows_.columns = config_.hidden_dim;
    rows_.values.resize(static_cast<size_t>(12 * rows_.columns));
  }

  // After a neighbour of one token that decodes.
  void Stage(int32_t first, int32_t count, bool samples) {
    PlanBuilder builder({});
    builder.Add(20, 2, 2, 1, {9}, true);
    PlannedSequence* sequence = builder.Add(30, kPromptLen, first, count, {1, 2, 3}, samples);
    if (samples) sequence->tokens.resize(static_cast<size_t>(first + count));
    sequence->rows = &rows_;
    const StepPlan plan = builder.plan();
    inputs_.Stage(plan, plan.sub_batches[0], 8);
    ASSERT_EQ(inputs_.Upload(buffers_.get()), kernels::KernelStatus::kOk);
  }
  std::vector<int32_t> positions() const {
    return {inputs_.positions() + 1, inputs_.positions() + inputs_.num_tokens()};
  }
  // By column, sequence and row.
  static std::vector<float> Rotation(const std::array<float, 3>& at) {
    const double angles[] = {at[0], at[1] * 0.1F, at[2] * 0.01F};
    std::vector<float> values;
    for (const double angle : angles) values.push_back(static_cast<float>(std::cos(angle)) * 1.5F);
    for (const double angle : angles) values.push_back(static_cast<float>(std::sin(angle)) * 1.5F);
    return values;
  }
  // Of the token with this index in the prompt, which is in an image.
  static std::vector<float> RotationAt(int32_t index) {
    const bool in_first = index < 8;
    const int32_t in_image = index - (in_first ? 2 : 10);
    const int32_t columns = in_first ? 3 : 2;
    const int32_t first = in_first ? 2 : 7;
    return Rotation({static_cast<float>(first + in_image % columns), static_cast<float>(first),
                     static_cast<float>(first + in_image / columns)});
  }

  const ModelConfig config_ = ConfigOfImages();
  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  PromptRows rows_;
  const MemoryPlan plan_ = *PlanMemory(config_, {Precision::kFp32}, *device_, OptionsOfImages());
  std::unique_ptr<StepBuffers> buffers_ = *StepBuffers::Allocate(plan_, config_.position_constants(), device_.get());
  StepInputs inputs_{plan_};
};

TEST_F(ImagesOfAStep, TakeTheirPositionsOffThoseAfterThem) {
  Stage(0, kPromptLen, true);
  const std::vector<int32_t> whole = positions();
  EXPECT_THAT(whole, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 5, 6, 7, 8, 9, 10, 11, 12, 10, 11));
  for (int32_t first = 0; first < kPromptLen; ++first) {
    for (int32_t count = 1; count <= kPromptLen - first; ++count) {
      Stage(first, count, first + count == kPromptLen);
      ASSERT_EQ(positions(), std::vector<int32_t>(whole.begin() + first, whole.begin() + first + count))
          << first << ", " << count;
    }
  }
  Stage(kPromptLen, 1, true);
  EXPECT_THAT(positions(), ElementsAre(12)) << "a decode step";
  Stage(17, 4, true);
  EXPECT_THAT(positions(), ElementsAre(11, 12, 13, 14)) << "computed again after a preemption";
}

TEST_F(ImagesOfAStep, LeavePagesAndSpansByIndex) {
  Stage(8, 10, true);
  EXPECT_EQ(inputs_.spans()[1].first_position, 8);
  ASSERT_TRUE(inputs_.has_head_spans());
  EXPECT_EQ(inputs_.head_spans().first[1].first_position, 17);
  EXPECT_EQ(inputs_.head_spans().max_kv_tokens, 18);
  const std::vector<int32_t> slots(inputs_.token_slot() + 1, inputs_.token_slot() + 11);
  EXPECT_THAT(slots, ElementsAre(0, 1, 2, 3, 4, 5, 6, 7, 0, 1));
}

TEST_F(ImagesOfAStep, RotateByRowAndColumnHoweverTheStepIsCut) {
  const float bias = 0.0F;
  const PrecisionWeights weights = ShapesOf(config_, Precision::kFp32, &bias);
  const std::vector<std::pair<int32_t, int32_t>> cuts = {{0, 18}, {0, 5}, {3, 4},  {4, 1},
                                                         {5, 7},  {7, 6}, {11, 7}, {13, 2}};
  for (const auto& [first, count] : cuts) {
    Stage(first, count, first + count == kPromptLen);
    float* const table = buffers_->floats(BufferId::kRotary);
    std::fill_n(table, 19 * 6, 0.0F);
    ForwardPass pass(config_, weights, {}, inputs_.pass_inputs(), buffers_->layers());
    ASSERT_TRUE(pass.RunLayers().ok());
    for (int32_t row = 0; row <= count; ++row) {
      const int32_t index = first + row - 1;
      const bool in_image = row > 0 && ((index >= 2 && index < 8) || (index >= 10 && index < 16));
      const std::vector<float> rotation(table + row * 6, table + (row + 1) * 6);
      EXPECT_EQ(rotation, in_image ? RotationAt(index) : std::vector<float>(6))
          << index << "; the fake device fills no table";
    }
  }
}

TEST(ImageRotations, OfAWholeStepFitAndOnlyOfModelsThatHaveThem) {
  FakeDeviceLog log;
  FakeSupport support;
  const auto device = MakeFakeDevice(&log, &support);
  const MemoryPlan with = *PlanMemory(ConfigOfImages(), {Precision::kFp32}, *device, OptionsOfImages());
  const MemoryPlan without = *PlanMemory(SmallLlamaConfig(), {Precision::kFp32}, *device, OptionsOfImages());
  EXPECT_EQ(StepInputs::ArenaBytes(with), StepInputs::ArenaBytes(without) + 32 * 6 * sizeof(float));
}

}  // namespace
}  // namespace dunlin::engine
