// SPDX-License-Identifier: Apache-2.0
// What a batch of images uploads, and the room that its plan has.
#include "engine/encoder/image_inputs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "engine/encoder/encoder_memory.h"
#include "engine/encoder/ragged_batch.h"

namespace dunlin::engine {
namespace {

class ImageInputsTest : public ::testing::Test {
 protected:
  ImageInputsTest() {
    config_.kind = ModelKind::kEncoder;
    config_.attention.causal = false;
    config_.num_layers = 1;
    config_.hidden_dim = 12;
    config_.attention.num_heads = config_.attention.num_kv_heads = 2;
    config_.attention.head_dim = 6;
    config_.mlp.ffn_dim = 16;
    config_.max_context = 64;
    config_.rotary.dim = 6;
    config_.rotary.inv_freq = {1.0F, 0.5F, 0.25F};
    config_.image = {.patch_size = 1, .merge = 2, .out_dim = 100, .num_row_frequencies = 2};
    options_.max_sequences = 4;
    options_.max_tokens_per_step = 8;
    std::string error;
    device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {.num_threads = 1, .cpu_variant = {}}, &error);
    plan_ = *PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options_);
    buffers_ = *StepBuffers::Allocate(plan_, config_.rotary.inv_freq, device_.get());
  }

  ModelConfig config_;
  EngineOptions options_;
  std::unique_ptr<kernels::Device> device_;
  MemoryPlan plan_;
  std::unique_ptr<StepBuffers> buffers_;
};

TEST_F(ImageInputsTest, PlanHasRoomForTheLargestImageAndItsRows) {
  EXPECT_EQ(plan_.max_tokens_per_step, 64) << "an image is not split";
  EXPECT_EQ(plan_.max_kept_rows, 4);
  // A row of 100 for each four patches takes 25 of one of them, less than the heads' 36.
  EXPECT_EQ(plan_[BufferId::kQkv], 64U * 36 * sizeof(float));
  config_.image.projector_dim = config_.image.out_dim = 1000;
  config_.image.patch_size = 6;
  MemoryPlan wide = *PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options_);
  EXPECT_EQ(wide[BufferId::kQkv], 64U * 250 * sizeof(float));
  EXPECT_EQ(wide[BufferId::kMlp], 64U * 250 * sizeof(float));
  config_.image.patch_size = 10;
  wide = *PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options_);
  EXPECT_EQ(wide[BufferId::kQkv], 64U * 300 * sizeof(float)) << "its patches";
  config_.image.num_frames = 2;
  wide = *PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options_);
  EXPECT_EQ(wide[BufferId::kQkv], 64U * 600 * sizeof(float)) << "of each frame";
  options_.max_context_tokens = 16;
  EXPECT_EQ(PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options_)->max_tokens_per_step, 16);
}

TEST_F(ImageInputsTest, PatchesAndRotationsFollowOneAnother) {
  const std::vector<float> first = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const std::vector<float> second(std::size_t{8} * 3, 20.0F);
  RaggedBatch batch(config_, plan_);
  EncodeBatch inputs;
  inputs.inputs.push_back({.num_tokens = 4, .patches = first.data(), .grid = {2, 2}});
  inputs.inputs.push_back({.num_tokens = 8, .patches = second.data(), .grid = {4, 2}});
  inputs.num_tokens = 12;
  for (int repeat = 0; repeat < 2; ++repeat) {
    batch.Stage(inputs, 8);
    ASSERT_EQ(batch.Upload(buffers_.get()), kernels::KernelStatus::kOk);
  }
  const float* patches = buffers_->floats(BufferId::kQkv);
  EXPECT_EQ(std::vector<float>(patches, patches + 12), first);
  EXPECT_EQ(std::vector<float>(patches + 12, patches + 36), second);
  constexpr int kRows[] = {0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3};
  constexpr int kColumns[] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
  for (int i = 0; i < 12; ++i) {
    const float* rotation = buffers_->floats(BufferId::kRotary) + i * 6;
    const float angles[] = {static_cast<float>(kRows[i]), 0.5F * static_cast<float>(kRows[i]),
                            0.25F * static_cast<float>(kColumns[i])};
    for (int k = 0; k < 3; ++k) {
      EXPECT_FLOAT_EQ(rotation[k], std::cos(angles[k])) << i;
      EXPECT_FLOAT_EQ(rotation[3 + k], std::sin(angles[k])) << i;
    }
  }
  const PassInputs pass = batch.pass_inputs();
  EXPECT_EQ(pass.num_tokens, 12);
  EXPECT_EQ(pass.kept.count, 12) << "every row is merged";
  EXPECT_EQ(pass.kept.spans.count, 0);
  ASSERT_EQ(pass.spans.count, 2);
  EXPECT_EQ(pass.spans.first[1].query_start, 4);
  EXPECT_EQ(pass.spans.first[1].query_len, 8);
}

// Two images, the second larger than what is staged at once.
TEST_F(ImageInputsTest, PatchesAreThoseOfEachFrameAndRowsHavePositions) {
  constexpr int32_t kTable = 3;
  config_.max_context = 400;
  config_.image.patch_size = 2;
  config_.image.num_frames = 2;
  config_.image.position_side = kTable;
  plan_ = *PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options_);
  buffers_ = *StepBuffers::Allocate(plan_, config_.rotary.inv_freq, device_.get());
  std::vector<float> table(std::size_t{kTable} * kTable * 12);
  for (size_t i = 0; i < table.size(); ++i) table[i] = std::sin(static_cast<float>(i));
  const PatchPositions positions(table, kTable);
  const ImageGrid grids[] = {{2, 4}, {18, 20}};
  std::vector<std::vector<float>> patches;
  EncodeBatch inputs;
  for (const ImageGrid& grid : grids) {
    std::vector<float>& values = patches.emplace_back(static_cast<size_t>(grid.num_patches()) * 12);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i + patches.size() * 100'000);
    inputs.inputs.push_back(
        {.num_tokens = static_cast<int32_t>(grid.num_patches()), .patches = values.data(), .grid = grid});
    inputs.num_tokens += static_cast<int32_t>(grid.num_patches());
  }
  RaggedBatch batch(config_, plan_, table);
  batch.Stage(inputs, 8);
  ASSERT_EQ(batch.Upload(buffers_.get()), kernels::KernelStatus::kOk);
  const float* row = buffers_->floats(BufferId::kQkv);
  const float* hidden = buffers_->floats(BufferId::kHidden);
  for (size_t image = 0; image < patches.size(); ++image) {
    for (int32_t patch = 0; patch < grids[image].num_patches(); ++patch, row += 24, hidden += 12) {
      const float* own = patches[image].data() + std::size_t{12} * static_cast<size_t>(patch);
      for (int channel = 0; channel < 3; ++channel) {
        for (int pixel = 0; pixel < 4; ++pixel) {
          ASSERT_EQ(row[channel * 8 + pixel], own[channel * 4 + pixel]) << patch;
          ASSERT_EQ(row[channel * 8 + 4 + pixel], own[channel * 4 + pixel]) << patch;
        }
      }
      float expected[12];
      const PatchPlace place = PlaceOf(grids[image], 2, patch);
      positions.Resample(grids[image], place.row, place.column, expected);
      ASSERT_TRUE(std::equal(expected, expected + 12, hidden)) << patch;
    }
  }
}

}  // namespace
}  // namespace dunlin::engine
