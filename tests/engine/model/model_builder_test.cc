// SPDX-License-Identifier: Apache-2.0
// Loading on a failing device, and streaming of large matrices.
#include "engine/model/load/model_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>

#include "engine/model/load/load_model.h"
#include "engine/model/weights/random_tensors.h"
#include "tests/engine/model/plain_device.h"
#include "tests/engine/model/small_checkpoints.h"

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

class ModelBuilderTest : public ::testing::Test {
 protected:
  ModelBuilderTest() { WriteModel(temp_, kGpt2Config, Gpt2Tensors("")); }
  absl::Status LoadStatus() {
    return LoadModel({.path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32, Precision::kBf16}},
                     device_.get())
        .status();
  }

  TempDirectory temp_;
  PlainDeviceState state_;
  std::unique_ptr<kernels::Device> device_ = MakePlainDevice(&state_);
};

TEST_F(ModelBuilderTest, NoMemoryIsResourceExhaustedAndNothingIsKept) {
  for (const size_t limit : {size_t{0}, size_t{2000}, size_t{5000}}) {
    state_.bytes_limit = limit;
    const absl::Status status = LoadStatus();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << limit;
    EXPECT_THAT(std::string(status.message()), HasSubstr("planned for 2 precision(s)")) << limit;
    EXPECT_EQ(state_.bytes_held, 0U);
    EXPECT_EQ(state_.num_packs, 0);  // memory is planned before anything is read
  }
}

TEST_F(ModelBuilderTest, AFailingDeviceIsInternalAtEveryStep) {
  ASSERT_TRUE(LoadStatus().ok());
  const int num_packs = state_.num_packs;
  EXPECT_EQ(num_packs, 2 * (2 + 2 * 4));
  for (int step = 0; step < num_packs; ++step) {
    state_.packs_until_failure = step;
    EXPECT_EQ(LoadStatus().code(), absl::StatusCode::kInternal) << step;
    EXPECT_EQ(state_.bytes_held, 0U) << step;
  }
}

// A piece is packed in every precision, then the flag is looked at: the next piece is not packed.
TEST_F(ModelBuilderTest, StopsWithinAPieceOnceItIsTold) {
  std::atomic<bool> stop{false};
  state_.on_pack_argument = &stop;
  state_.on_pack = [](void* flag) { *static_cast<std::atomic<bool>*>(flag) = true; };
  const ModelSource from_files = {
      .path = temp_.path(), .random_shape = "", .precisions = {Precision::kFp32, Precision::kBf16}};
  temp_.Write("shape.json", kLlamaConfig);
  const ModelSource random = {.path = "",
                              .random_shape = temp_.File("shape.json"),
                              .random_seed = 3,
                              .precisions = {Precision::kFp32, Precision::kBf16}};
  for (const ModelSource& source : {from_files, random}) {
    stop = false;
    state_.num_packs = 0;
    EXPECT_EQ(LoadModel(source, device_.get(), &stop).status().code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(state_.num_packs, 2);
    EXPECT_EQ(state_.bytes_held, 0U);
  }
}

TEST_F(ModelBuilderTest, LargeMatricesStreamInChunks) {
  const std::string config = WithField(WithField(WithField(kLlamaConfig, "vocab_size", "9001"), "hidden_size", "2048"),
                                       "num_hidden_layers", "1");
  temp_.Write("big.json", config);
  const absl::StatusOr<std::unique_ptr<Model>> model = LoadModel(
      {.path = "", .random_shape = temp_.File("big.json"), .random_seed = 3, .precisions = {Precision::kFp32}},
      device_.get());
  ASSERT_TRUE(model.ok()) << model.status();
  // 16 MiB of BF16 rows of 2048 are 4096 rows, cut to 4032: three chunks each for the embedding and the head.
  EXPECT_EQ(state_.num_packs, 2 * 3 + 7);
  const kernels::PackedWeight& embedding = (*model)->weights(Precision::kFp32).embedding;
  double sum_of_squares = 0.0;
  for (const int64_t row : {int64_t{0}, int64_t{4031}, int64_t{4032}, int64_t{9000}}) {
    for (int64_t k = 0; k < 2048; ++k) sum_of_squares += ElementOf(embedding, row, k) * ElementOf(embedding, row, k);
  }
  EXPECT_NEAR(sum_of_squares / (4 * 2048), 0.02 * 0.02, 0.02 * 0.02 * 0.1);
}

}  // namespace
}  // namespace dunlin::engine
