// SPDX-License-Identifier: Apache-2.0
// Which rows of a batch are pooled, and the attention call over those alone.
#include "engine/encoder/ragged_batch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/encoder/encoder_memory.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

class RaggedBatchTest : public ::testing::Test {
 protected:
  RaggedBatchTest() {
    config_.kind = ModelKind::kEncoder;
    config_.attention.causal = false;
    config_.num_layers = 2;
    config_.hidden_dim = 8;
    config_.attention.num_heads = config_.attention.num_kv_heads = 2;
    config_.attention.head_dim = 4;
    config_.mlp.ffn_dim = 16;
    config_.vocab_size = 50;
    config_.max_context = 32;
    EngineOptions options;
    options.max_sequences = 4;
    options.max_tokens_per_step = 32;
    std::string error;
    device_ = kernels::OpenDevice(kernels::DeviceKind::kCpu, {.num_threads = 1, .cpu_variant = {}}, &error);
    plan_ = *PlanEncoderMemory(config_, {Precision::kFp32}, *device_, options);
    buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
    batch_ = std::make_unique<RaggedBatch>(config_, plan_);
  }
  // Inputs of 5, 1 and 3 tokens.
  void Stage(const std::vector<Pooling>& poolings) {
    static constexpr TokenId kTokens[5] = {1, 2, 3, 4, 5};
    static constexpr int32_t kLengths[] = {5, 1, 3};
    EncodeBatch batch;
    for (size_t i = 0; i < poolings.size(); ++i) {
      batch.inputs.push_back({.tokens = kTokens, .num_tokens = kLengths[i], .pooling = poolings[i]});
      batch.num_tokens += kLengths[i];
    }
    batch_->Stage(batch, 8);
    ASSERT_EQ(batch_->Upload(buffers_.get()), kernels::KernelStatus::kOk);
  }

  ModelConfig config_;
  std::unique_ptr<kernels::Device> device_;
  MemoryPlan plan_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<RaggedBatch> batch_;
};

TEST_F(RaggedBatchTest, KeepsOneRowPerInputWhenEveryPoolingReadsOne) {
  Stage({Pooling::kLast, Pooling::kCls, Pooling::kCls});
  const PassInputs inputs = batch_->pass_inputs();
  ASSERT_EQ(inputs.kept.count, 3);
  EXPECT_EQ(inputs.kept.num_decode, 0);
  EXPECT_THAT(std::vector<int32_t>(inputs.kept.index, inputs.kept.index + 3), ElementsAre(4, 5, 6));
  EXPECT_EQ(batch_->num_rows(), 3);
  const QuerySpans spans = inputs.kept.spans;
  ASSERT_EQ(spans.count, 3);
  EXPECT_EQ(spans.max_query_tokens, 1);
  EXPECT_EQ(spans.max_kv_tokens, 5);
  constexpr int32_t kKeys[] = {5, 1, 3};
  for (int32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(spans.first[i].query_start, i);
    EXPECT_EQ(spans.first[i].first_position + spans.first[i].query_len, kKeys[i]) << "each row sees all keys";
    EXPECT_EQ(spans.first[i].page_table_row, i);
    EXPECT_EQ(batch_->first_row(static_cast<size_t>(i)), i);
    EXPECT_EQ(batch_->num_rows(static_cast<size_t>(i)), 1);
  }
  EXPECT_EQ(inputs.spans.first[2].query_start, 6) << "the spans of the whole inputs are there too";
}

TEST_F(RaggedBatchTest, KeepsEveryRowWhenOneInputIsPooledByMean) {
  Stage({Pooling::kCls, Pooling::kMean, Pooling::kLast});
  EXPECT_EQ(batch_->pass_inputs().kept.count, 9);
  EXPECT_EQ(batch_->pass_inputs().kept.spans.count, 0);
  EXPECT_EQ(batch_->num_rows(), 9);
  EXPECT_EQ(batch_->first_row(2), 6);
  EXPECT_EQ(batch_->num_rows(2), 3);
  Stage({Pooling::kCls});
  EXPECT_EQ(batch_->pass_inputs().kept.spans.count, 1) << "nothing remains of the previous batch";
}

TEST_F(RaggedBatchTest, TokensOfTheSecondTextHaveTypeOneWhereTheModelHasIt) {
  static constexpr TokenId kTokens[5] = {1, 2, 3, 4, 5};
  for (const int32_t types : {0, 1, 2}) {
    config_.embedding.num_token_types = types;
    batch_ = std::make_unique<RaggedBatch>(config_, plan_);
    EncodeBatch batch;
    batch.inputs.push_back({.tokens = kTokens, .num_tokens = 5, .first_length = 3});
    batch.inputs.push_back({.tokens = kTokens, .num_tokens = 2});
    batch.num_tokens = 7;
    batch_->Stage(batch, 8);
    ASSERT_EQ(batch_->Upload(buffers_.get()), kernels::KernelStatus::kOk);
    const int32_t* row = batch_->pass_inputs().token_types;
    const int32_t second = types == 2 ? 1 : 0;
    EXPECT_THAT(std::vector<int32_t>(row, row + 7), ElementsAre(0, 0, 0, second, second, 0, 0)) << types;
  }
}

TEST_F(RaggedBatchTest, ACausalRowStandsAtItsPosition) {
  config_.attention.causal = true;
  batch_ = std::make_unique<RaggedBatch>(config_, plan_);
  Stage({Pooling::kCls, Pooling::kLast, Pooling::kLast});
  const QuerySpans spans = batch_->pass_inputs().kept.spans;
  ASSERT_EQ(spans.count, 3);
  EXPECT_EQ(spans.first[0].first_position, 0);
  EXPECT_EQ(spans.first[2].first_position, 2);
}

TEST_F(RaggedBatchTest, KeepsEveryRowWhereTheLastLayerHasAWindowToBothSides) {
  config_.attention.layer_windows = {0, 9};
  batch_ = std::make_unique<RaggedBatch>(config_, plan_);
  Stage({Pooling::kCls, Pooling::kCls, Pooling::kLast});
  EXPECT_EQ(batch_->pass_inputs().kept.count, 9);
  EXPECT_EQ(batch_->pass_inputs().kept.spans.count, 0);
  EXPECT_EQ(batch_->first_row(2), 6);
  EXPECT_EQ(batch_->num_rows(2), 3);
}

}  // namespace
}  // namespace dunlin::engine
