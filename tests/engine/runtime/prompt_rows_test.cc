// SPDX-License-Identifier: Apache-2.0
// Rows in place of a prompt's embeddings: which models take them, and which rows of a step are theirs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "engine/layers/embedding.h"
#include "tests/engine/runtime/forward_pass_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

// The pairs of dimensions in turn.
void SetAxes(ModelConfig* config) {
  config->rotary.axes.resize(config->rotary.inv_freq.size());
  for (size_t i = 0; i < config->rotary.axes.size(); ++i) config->rotary.axes[i] = static_cast<RotationAxis>(i % 3);
}

TEST(TakesRows, HoldsWhereAnEmbeddingEntersTheFirstLayerAsItIs) {
  EXPECT_TRUE(TakesRows(SmallLlamaConfig(), 1));
  EXPECT_FALSE(TakesRows(SmallLlamaConfig(), 2)) << "divided";
  EXPECT_FALSE(TakesRows(SmallGpt2Config(), 1)) << "positions are added";
  const struct {
    const char* what;
    bool takes_rows;
    void (*change)(ModelConfig*);
  } cases[] = {
      {"a factor", true, [](ModelConfig* config) { config->embedding.scale = 5.0F; }},
      {"an encoder", false, [](ModelConfig* config) { config->kind = ModelKind::kEncoder; }},
      {"token types", false, [](ModelConfig* config) { config->embedding.num_token_types = 2; }},
      {"a norm", false, [](ModelConfig* config) { config->embedding.norm = true; }},
      {"a norm after each layer", false, [](ModelConfig* config) { config->norm.placement = NormPlacement::kPost; }},
      {"inputs of layers", false, [](ModelConfig* config) { config->layer_inputs.width = 4; }},
      {"residual streams", false, [](ModelConfig* config) { config->streams.count = 2; }},
      {"experts by token", false, [](ModelConfig* config) { config->experts.by_token = {true}; }},
      {"rotations by row and column", true, [](ModelConfig* config) { SetAxes(config); }},
      {"those of several lists", false,
       [](ModelConfig* config) {
         SetAxes(config);
         config->rotary.inv_freq.resize(2 * config->rotary.inv_freq.size());
       }},
      {"those, and queries' factors by position", false,
       [](ModelConfig* config) {
         SetAxes(config);
         config->attention.query_scale_beta = 0.1F;
       }},
  };
  for (const auto& each : cases) {
    ModelConfig config = SmallLlamaConfig();
    each.change(&config);
    EXPECT_EQ(TakesRows(config, 1), each.takes_rows) << each.what;
  }
}

class PromptRowsOfAStep : public ::testing::Test {
 protected:
  PromptRowsOfAStep() {
    rows_.spans = {{2, 3}, {7, 2}, {10, 4}};
    rows_.columns = SmallLlamaConfig().hidden_dim;
    rows_.values.resize(static_cast<size_t>(9 * rows_.columns));
    std::iota(rows_.values.begin(), rows_.values.end(), 1.0F);
  }
  // Tokens [first, first + count) of a sequence with the rows, after a neighbour that decodes.
  void Stage(int32_t first, int32_t count) {
    PlanBuilder builder({});
    builder.Add(20, 2, 2, 1, {9}, true);
    PlannedSequence* sequence = builder.Add(30, 14, first, count, {1, 2, 3}, false);
    sequence->rows = &rows_;
    for (const PromptRows::Span& span : rows_.spans) {
      for (int32_t i = 0; i < span.count; ++i) {
        sequence->tokens[static_cast<size_t>(span.first + i)] = kFirstRowToken + i;
      }
    }
    const StepPlan plan = builder.plan();
    inputs_.Stage(plan, plan.sub_batches[0], 8);
    ASSERT_EQ(inputs_.Upload(buffers_.get()), kernels::KernelStatus::kOk);
  }
  std::vector<RowRun> runs() const {
    const HostList<RowRun> staged = inputs_.pass_inputs().row_runs;
    return {staged.begin(), staged.end()};
  }
  std::vector<int32_t> token_ids() const { return {inputs_.token_ids(), inputs_.token_ids() + inputs_.num_tokens()}; }
  const float* Row(int32_t row) const { return rows_.values.data() + row * rows_.columns; }

  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  PromptRows rows_;
  const ModelConfig config_ = SmallLlamaConfig();
  const MemoryPlan plan_ = *PlanMemory(config_, {Precision::kFp32}, *device_, OptionsOfSteps());
  std::unique_ptr<StepBuffers> buffers_ = *StepBuffers::Allocate(plan_, config_.position_constants(), device_.get());
  StepInputs inputs_{plan_};

 private:
  static EngineOptions OptionsOfSteps() {
    EngineOptions options;
    options.max_sequences = 4;
    options.max_tokens_per_step = 32;
    return options;
  }
};

TEST_F(PromptRowsOfAStep, AreThoseOfItsTokensAndNoDeviceSeesTheirIds) {
  Stage(0, 14);
  EXPECT_THAT(runs(), ElementsAre(FieldsAre(Row(0), nullptr, 3, 3), FieldsAre(Row(3), nullptr, 8, 2),
                                  FieldsAre(Row(5), nullptr, 11, 4)));
  EXPECT_THAT(token_ids(), ElementsAre(22, 30, 31, 0, 0, 0, 35, 36, 0, 0, 39, 0, 0, 0, 0));
}

TEST_F(PromptRowsOfAStep, AreCutWhereTheStepIs) {
  Stage(3, 9);
  EXPECT_THAT(runs(), ElementsAre(FieldsAre(Row(1), nullptr, 1, 2), FieldsAre(Row(3), nullptr, 5, 2),
                                  FieldsAre(Row(5), nullptr, 8, 2)));
  Stage(12, 1);
  EXPECT_THAT(runs(), ElementsAre(FieldsAre(Row(7), nullptr, 1, 1)));
  Stage(5, 2);
  EXPECT_THAT(runs(), ElementsAre()) << "between them";
  EXPECT_THAT(token_ids(), ElementsAre(22, 35, 36));
}

TEST_F(PromptRowsOfAStep, AreNoneOfTheOutput) {
  Stage(14, 1);
  EXPECT_EQ(inputs_.pass_inputs().row_runs, HostList<RowRun>()) << "steps that repeat are equal in all slots";
}

TEST_F(PromptRowsOfAStep, TakeThePlaceOfWhatWasGathered) {
  Stage(3, 9);
  const float bias = 0.0F;
  const PrecisionWeights weights = ShapesOf(config_, Precision::kFp32, &bias);
  ExecutionProfile profile;
  profile.precision = Precision::kFp32;
  ForwardPass pass(config_, weights, profile, inputs_.pass_inputs(), buffers_->layers());
  ASSERT_TRUE(pass.RunLayers().ok());
  const auto row = [this](int32_t index) {
    const float* first = buffers_->floats(BufferId::kHidden) + index * rows_.columns;
    return std::vector<float>(first, first + rows_.columns);
  };
  const auto expected = [this](int32_t index) { return std::vector<float>(Row(index), Row(index) + rows_.columns); };
  EXPECT_EQ(row(1), expected(1));
  EXPECT_EQ(row(2), expected(2));
  EXPECT_EQ(row(5), expected(3));
  EXPECT_EQ(row(6), expected(4));
  EXPECT_EQ(row(8), expected(5));
  EXPECT_EQ(row(9), expected(6));
  for (const int32_t other : {0, 3, 4, 7}) {
    EXPECT_EQ(row(other), std::vector<float>(static_cast<size_t>(rows_.columns))) << "the fake device gathers nothing";
  }
}

}  // namespace
}  // namespace dunlin::engine
