// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/step_inputs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "tests/engine/runtime/fake_device.h"
#include "tests/engine/runtime/small_models.h"
#include "tests/engine/runtime/step_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

class StepInputsTest : public ::testing::Test {
 protected:
  StepInputsTest() {
    options_.max_sequences = 4;
    options_.max_tokens_per_step = 32;
    plan_ = *PlanMemory(SmallGpt2Config(), {Precision::kFp32}, *device_, options_);
    buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
    inputs_ = std::make_unique<StepInputs>(plan_);
  }
  void Stage(const PlanBuilder& builder) {
    const StepPlan plan = builder.plan();
    inputs_->Stage(plan, plan.sub_batches[0], 8);
    ASSERT_EQ(inputs_->Upload(buffers_.get()), kernels::KernelStatus::kOk);
  }
  std::vector<int32_t> Tokens(const int32_t* array) const { return {array, array + inputs_->num_tokens()}; }

  FakeDeviceLog log_;
  FakeSupport support_;
  std::unique_ptr<kernels::Device> device_ = MakeFakeDevice(&log_, &support_);
  EngineOptions options_;
  MemoryPlan plan_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<StepInputs> inputs_;
};

TEST_F(StepInputsTest, LaysOutPrefillAndDecodeBehindEachOther) {
  PlanBuilder builder({});
  builder.Add(100, 10, 7, 3, {5, 9}, true);     // the last chunk of a prompt of 10, over a page border
  builder.Add(200, 4, 16, 1, {3, 1, 7}, true);  // a decode step
  Stage(builder);
  EXPECT_THAT(Tokens(inputs_->token_ids()), ElementsAre(107, 108, 109, 216));
  EXPECT_THAT(Tokens(inputs_->positions()), ElementsAre(7, 8, 9, 16));
  EXPECT_THAT(Tokens(inputs_->token_page()), ElementsAre(5, 9, 9, 7));
  EXPECT_THAT(Tokens(inputs_->token_slot()), ElementsAre(7, 0, 1, 0));
  ASSERT_EQ(inputs_->num_sequences(), 2);
  EXPECT_EQ(inputs_->spans()[1].query_start, 3);
  EXPECT_EQ(inputs_->spans()[1].query_len, 1);
  EXPECT_EQ(inputs_->spans()[1].first_position, 16);
  EXPECT_EQ(inputs_->spans()[1].page_table_row, 1);
  EXPECT_EQ(inputs_->page_table_stride(), 3);
  EXPECT_EQ(inputs_->query_spans().num_one_token, 0) << "the first has three";
  EXPECT_EQ(inputs_->query_spans().max_query_tokens, 3);
  EXPECT_EQ(inputs_->query_spans().max_kv_tokens, 17);
  EXPECT_EQ(inputs_->page_table()[0], 5);
  EXPECT_EQ(inputs_->page_table()[1], 9);
  EXPECT_EQ(inputs_->page_table()[3], 3);
  EXPECT_EQ(inputs_->page_table()[5], 7);
}

TEST_F(StepInputsTest, GivesEachGroupItsPages) {
  ModelConfig config = SmallGpt2Config();
  config.attention.layer_windows = {0, 9};
  plan_ = *PlanMemory(config, {Precision::kFp32}, *device_, options_);
  buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
  inputs_ = std::make_unique<StepInputs>(plan_);
  PlanBuilder builder({});
  builder.Add(100, 10, 7, 3, {5, 6, 9, 8}, true);              // two blocks
  builder.Add(200, 4, 16, 1, {3, kNoPage, 1, 2, 7, 4}, true);  // three, the first of them behind the window
  Stage(builder);
  const int32_t* pages = inputs_->token_page();
  EXPECT_THAT(std::vector<int32_t>(pages, pages + 8), ElementsAre(5, 9, 9, 7, 6, 8, 8, 4));
  ASSERT_EQ(inputs_->page_table_stride(), 3);
  const int32_t* table = inputs_->page_table();
  EXPECT_THAT(std::vector<int32_t>(table, table + 2), ElementsAre(5, 9));
  EXPECT_THAT(std::vector<int32_t>(table + 3, table + 8), ElementsAre(3, 1, 7, 6, 8));
  EXPECT_THAT(std::vector<int32_t>(table + 9, table + 12), ElementsAre(4, 2, 4)) << "no page: the last one instead";
}

TEST_F(StepInputsTest, PicksTheLastRowOfSequencesThatSample) {
  PlanBuilder builder({});
  builder.Add(0, 20, 0, 5, {0}, false);
  builder.Add(0, 3, 0, 3, {1}, true);
  builder.Add(0, 2, 4, 1, {2}, true);
  Stage(builder);
  ASSERT_EQ(inputs_->head_rows().size(), 2U);
  EXPECT_EQ(inputs_->head_rows()[0].sequence_index, 1);
  EXPECT_EQ(inputs_->head_rows()[0].scored_position, -1);
  EXPECT_EQ(inputs_->head_row_index()[0], 7);
  EXPECT_EQ(inputs_->head_rows()[1].sequence_index, 2);
  EXPECT_EQ(inputs_->head_row_index()[1], 8);
}

// (first row, rows, first position, page table row) of each sequence in the head's own call of attention.
std::vector<std::vector<int32_t>> HeadSpans(const StepInputs& inputs) {
  std::vector<std::vector<int32_t>> spans;
  for (int32_t i = 0; i < inputs.head_spans().count; ++i) {
    const kernels::SequenceSpan& span = inputs.head_spans().first[i];
    spans.push_back({span.query_start, span.query_len, span.first_position, span.page_table_row});
  }
  return spans;
}

TEST_F(StepInputsTest, TheHeadsRowsAreTheLastOfSequencesOfTheirOwn) {
  PlanBuilder builder({});
  builder.Add(0, 2, 4, 1, {2}, true);
  builder.Add(0, 20, 3, 5, {0}, false);
  PlannedSequence* scored = builder.Add(0, 9, 2, 7, {1, 3}, true);
  scored->sampling.prompt_logprobs = 0;
  scored->next_scored_position = 7;
  Stage(builder);
  ASSERT_EQ(inputs_->head_rows().size(), 4U);
  EXPECT_TRUE(inputs_->has_head_spans());
  EXPECT_THAT(HeadSpans(*inputs_), ElementsAre(ElementsAre(0, 1, 4, 0), ElementsAre(1, 3, 6, 2)));
  EXPECT_EQ(inputs_->head_spans().max_query_tokens, 3);
  EXPECT_EQ(inputs_->head_spans().max_kv_tokens, 9);
  EXPECT_EQ(inputs_->spans()[2].query_len, 7);

  // Known output tokens between the prompt and the row that draws: that one is a span of its own.
  PlanBuilder gap({});
  PlannedSequence* again = gap.Add(0, 6, 0, 8, {0}, true);
  again->sampling.prompt_logprobs = 0;
  again->next_scored_position = 4;
  Stage(gap);
  EXPECT_THAT(HeadSpans(*inputs_), ElementsAre(ElementsAre(0, 2, 3, 0), ElementsAre(2, 1, 7, 0)));
}

TEST_F(StepInputsTest, TheHeadHasNoSpansWhereItTakesAllRowsOrNone) {
  PlanBuilder all({});
  all.Add(0, 2, 4, 1, {2}, true);
  all.Add(0, 1, 0, 1, {0}, true);
  Stage(all);
  EXPECT_FALSE(inputs_->has_head_spans());
  PlanBuilder none({});
  none.Add(0, 20, 0, 5, {0}, false);
  Stage(none);
  EXPECT_FALSE(inputs_->has_head_spans());
}

// The keys of a long prompt beside it say nothing about a row that draws.
TEST_F(StepInputsTest, TheHeadsSpansHaveBoundsOfTheirOwn) {
  PlanBuilder builder({});
  builder.Add(0, 2, 4, 1, {2}, true);
  builder.Add(0, 30, 12, 8, {0, 1, 3}, false);
  Stage(builder);
  EXPECT_EQ(inputs_->query_spans().num_one_token, 1);
  EXPECT_EQ(inputs_->query_spans().max_query_tokens, 8);
  EXPECT_EQ(inputs_->query_spans().max_kv_tokens, 20);
  EXPECT_EQ(inputs_->head_spans().num_one_token, inputs_->head_spans().count);
  EXPECT_EQ(inputs_->head_spans().max_query_tokens, 1);
  EXPECT_EQ(inputs_->head_spans().max_kv_tokens, 5);
}

std::vector<std::vector<int32_t>> Described(const QuerySpans& spans) {
  std::vector<std::vector<int32_t>> all;
  for (int32_t i = 0; i < spans.count; ++i) {
    const kernels::SequenceSpan& span = spans.first[i];
    all.push_back({span.query_start, span.query_len, span.first_position, span.page_table_row});
  }
  return all;
}

// Pages of 8 tokens, chunks of 16: the table's entries 0, 2 and 4 of a row begin one.
TEST_F(StepInputsTest, SpansAreCutWhereChunksOfPositionsBegin) {
  ModelConfig config = SmallGpt2Config();
  config.attention.layer_windows = {16, 0};
  config.attention.chunked_windows = true;
  plan_ = *PlanMemory(config, {Precision::kFp32}, *device_, options_);
  ASSERT_EQ(plan_.attention_chunk, 16);
  buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
  inputs_ = std::make_unique<StepInputs>(plan_);
  PlanBuilder builder({});
  builder.Add(0, 2, 20, 1, {0, 1, 2, 3, 4, 5}, true);
  builder.Add(0, 40, 10, 23, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, false);
  PlannedSequence* scored = builder.Add(0, 18, 14, 4, {0, 1, 2, 3, 4, 5}, true);
  scored->sampling.prompt_logprobs = 0;
  scored->next_scored_position = 16;
  Stage(builder);
  ASSERT_EQ(inputs_->page_table_stride(), 5);
  const QuerySpans chunks = inputs_->pass_inputs().chunk_spans;
  EXPECT_THAT(Described(chunks),
              ElementsAre(ElementsAre(0, 1, 4, 2), ElementsAre(1, 6, 10, 5), ElementsAre(7, 16, 0, 7),
                          ElementsAre(23, 1, 0, 9), ElementsAre(24, 2, 14, 10), ElementsAre(26, 2, 0, 12)));
  EXPECT_EQ(chunks.num_one_token, 1);
  EXPECT_EQ(chunks.max_query_tokens, 16);
  EXPECT_EQ(chunks.max_kv_tokens, 16);
  EXPECT_THAT(Described(inputs_->pass_inputs().kept.chunk_spans),
              ElementsAre(ElementsAre(0, 1, 4, 2), ElementsAre(1, 1, 15, 10), ElementsAre(2, 2, 0, 12)));
  EXPECT_EQ(inputs_->query_spans().count, 3);
  EXPECT_EQ(inputs_->page_table()[7], 4) << "of the second sequence the third page of this group";
}

// (position, row) of everything scored by a chunk of tokens first .. first + count - 1.
std::vector<std::pair<int32_t, int32_t>> Scored(const StepInputs& inputs) {
  std::vector<std::pair<int32_t, int32_t>> scored;
  for (size_t i = 0; i < inputs.head_rows().size(); ++i) {
    if (inputs.head_rows()[i].scored_position < 0) continue;
    scored.emplace_back(inputs.head_rows()[i].scored_position, inputs.head_row_index()[i]);
  }
  return scored;
}

TEST_F(StepInputsTest, ScoresEachPromptTokenByTheRowBeforeIt) {
  PlanBuilder first({});
  first.Add(0, 7, 0, 4, {0}, false)->sampling.prompt_logprobs = 0;
  Stage(first);
  EXPECT_THAT(Scored(*inputs_), ElementsAre(std::pair(1, 0), std::pair(2, 1), std::pair(3, 2), std::pair(4, 3)));

  PlanBuilder second({});
  PlannedSequence* sequence = second.Add(0, 7, 4, 3, {0}, true);
  sequence->sampling.prompt_logprobs = 0;
  sequence->next_scored_position = 5;
  Stage(second);
  EXPECT_THAT(Scored(*inputs_), ElementsAre(std::pair(5, 0), std::pair(6, 1)));
  EXPECT_EQ(inputs_->head_rows().size(), 3U);  // and the row that samples
}

TEST_F(StepInputsTest, DoesNotScoreAgainAfterAPreemption) {
  PlanBuilder builder({});
  PlannedSequence* sequence = builder.Add(0, 6, 0, 6, {0}, true);
  sequence->sampling.prompt_logprobs = 2;
  sequence->next_scored_position = 4;
  Stage(builder);
  EXPECT_THAT(Scored(*inputs_), ElementsAre(std::pair(4, 3), std::pair(5, 4)));
}

TEST_F(StepInputsTest, RoundedBoundsStayWhileSequencesGrow) {
  ModelConfig config = SmallGpt2Config();
  config.max_context = 1500;
  plan_ = *PlanMemory(config, {Precision::kFp32}, *device_, options_);
  buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
  inputs_ = std::make_unique<StepInputs>(plan_);
  std::vector<PageId> pages(188);
  std::iota(pages.begin(), pages.end(), 0);
  const auto stage = [&](int32_t first, int32_t prompt_len) {
    PlanBuilder builder({});
    builder.Add(0, prompt_len, first, 1, pages, true);
    Stage(builder);
    return inputs_->pass_inputs();
  };
  EXPECT_EQ(stage(16, 4).spans.max_kv_tokens, 17) << "as it is by default";
  inputs_->RoundShapes();
  const PassInputs inputs = stage(16, 4);
  EXPECT_EQ(inputs.spans.max_kv_tokens, 512);
  EXPECT_EQ(inputs.page_table_stride, 64);
  EXPECT_EQ(inputs_->page_table()[2], 2);
  EXPECT_TRUE(stage(511, 4) == inputs);
  EXPECT_EQ(stage(512, 4).spans.max_kv_tokens, 1024);
  EXPECT_EQ(stage(1024, 4).spans.max_kv_tokens, 1500) << "the context";
  EXPECT_EQ(inputs_->page_table_stride(), 188);
  EXPECT_EQ(stage(1499, 4).spans.max_kv_tokens, 1500);
  EXPECT_EQ(stage(16, 17).spans.max_kv_tokens, 17) << "a prompt's last token";
}

// A prompt that keeps a state at 3, a decoded token alone, and one with two drafts.
TEST_F(StepInputsTest, RowsGoThroughStatesInPartsBetweenTheirCuts) {
  options_.kv_memory_bytes = size_t{1} << 20;
  plan_ = *PlanMemory(SmallDeltaConfig(), {Precision::kFp32}, *device_, options_);
  buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
  inputs_ = std::make_unique<StepInputs>(plan_);
  const std::vector<StateCut> drafts = {{13, 7}, {14, 8}};
  const std::vector<StateCut> kept = {{3, 5}};
  PlanBuilder builder({});
  PlannedSequence* guessed = builder.Add(0, 4, 12, 1, {0, 1}, true);
  guessed->tokens.insert(guessed->tokens.end(), {50, 51});
  guessed->share.num_drafts = 2;
  guessed->state = {.slot = 6, .cuts = drafts};
  builder.Add(0, 4, 9, 1, {2, 3}, true)->state = {.slot = 2, .copied_from = 9};
  builder.Add(0, 6, 0, 6, {4}, true)->state = {.slot = 4, .cuts = kept};
  Stage(builder);
  const StateParts parts = inputs_->state_parts();
  ASSERT_EQ(parts.count, 3);
  const auto spans = [&parts](int part) {
    std::vector<std::array<int32_t, 4>> rows;
    for (int32_t i = 0; i < parts.first[part].count; ++i) {
      const kernels::SequenceSpan& span = parts.first[part].spans[i];
      rows.push_back({span.query_start, span.query_len, span.first_position, parts.first[part].slots[i]});
    }
    return rows;
  };
  const auto copies = [&parts](int part) {
    std::vector<std::pair<int32_t, int32_t>> slots;
    for (int32_t i = 0; i < parts.first[part].num_copies; ++i) {
      slots.emplace_back(parts.first[part].copies[i].from, parts.first[part].copies[i].to);
    }
    return slots;
  };
  using Row = std::array<int32_t, 4>;
  EXPECT_THAT(spans(0), ElementsAre(Row{0, 1, 12, 6}, Row{3, 1, 9, 2}, Row{4, 3, 0, 4}));
  EXPECT_THAT(copies(0), ElementsAre(std::pair(9, 2)));
  EXPECT_THAT(spans(1), ElementsAre(Row{1, 1, 13, 7}, Row{7, 3, 3, 5}));
  EXPECT_THAT(copies(1), ElementsAre(std::pair(6, 7), std::pair(4, 5)));
  EXPECT_THAT(spans(2), ElementsAre(Row{2, 1, 14, 8}));
  EXPECT_THAT(copies(2), ElementsAre(std::pair(7, 8)));
}

TEST_F(StepInputsTest, RowsThatRepeatTheShortestSequenceFillAShape) {
  options_.max_sequences = 7;
  plan_ = *PlanMemory(SmallGpt2Config(), {Precision::kFp32}, *device_, options_);
  buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
  inputs_ = std::make_unique<StepInputs>(plan_);
  inputs_->RoundShapes();
  PlanBuilder builder({});
  for (const int32_t first : {9, 4, 17, 11, 6}) {
    builder.Add(0, 2, first, 1, {PageId{first}, PageId{first + 1}, PageId{first + 2}}, true);
  }
  Stage(builder);
  const PassInputs inputs = inputs_->pass_inputs();
  EXPECT_EQ(inputs.num_tokens, 7) << "all sequences of a step; else 8";
  EXPECT_EQ(inputs.num_decode_tokens, 7);
  EXPECT_EQ(inputs.spans.count, 7);
  EXPECT_EQ(inputs.spans.num_one_token, 7);
  EXPECT_EQ(inputs.kept.count, 7);
  EXPECT_EQ(inputs.kept.num_decode, 7);
  EXPECT_EQ(inputs.kept.spans.count, 0) << "every row is kept";
  EXPECT_EQ(inputs_->head_rows().size(), 5U);
  for (const int32_t row : {5, 6}) {
    EXPECT_EQ(inputs.token_ids[row], inputs.token_ids[1]);
    EXPECT_EQ(inputs.positions[row], 4);
    EXPECT_EQ(inputs.token_page[row], inputs.token_page[1]);
    EXPECT_EQ(inputs.token_slot[row], inputs.token_slot[1]);
    EXPECT_EQ(inputs.kept.index[row], row);
    EXPECT_EQ(inputs.spans.first[row].query_start, row);
    EXPECT_EQ(inputs.spans.first[row].query_len, 1);
    EXPECT_EQ(inputs.spans.first[row].first_position, 4);
    EXPECT_EQ(inputs.spans.first[row].page_table_row, 1);
  }
}

TEST_F(StepInputsTest, RowsThatRepeatASequencePredictWhatItDoes) {
  plan_.predicts = true;
  plan_.bytes[static_cast<size_t>(BufferId::kIndices)] *= 2;
  buffers_ = *StepBuffers::Allocate(plan_, {}, device_.get());
  inputs_ = std::make_unique<StepInputs>(plan_);
  inputs_->RoundShapes();
  PlanBuilder builder({});
  for (const int32_t first : {9, 4, 11}) {
    builder.Add(0, 2, first, 1, {PageId{first}, PageId{first + 1}, PageId{first + 2}}, true);
  }
  HiddenRows rows(1, plan_.max_tokens_per_step, plan_.max_sequences);
  rows.BeginStep();
  const StepPlan plan = builder.plan();
  inputs_->Stage(plan, plan.sub_batches[0], 8);
  inputs_->StagePredictor(plan, plan.sub_batches[0], 8, 0, &rows);
  ASSERT_EQ(inputs_->Upload(buffers_.get()), kernels::KernelStatus::kOk);
  const PassInputs inputs = inputs_->predictor_inputs();
  ASSERT_EQ(inputs.num_tokens, 4);
  for (const int32_t* array : {inputs.positions, inputs.token_page, inputs.token_slot, inputs.hidden_rows}) {
    EXPECT_EQ(array[3], array[1]);
  }
  EXPECT_EQ(inputs.hidden_rows[3], rows.RowOfStep(1));
}

// Drafts, scores and prompts have shapes of their own.
TEST_F(StepInputsTest, OnlyStepsOfOneDrawEachAreFilled) {
  inputs_->RoundShapes();
  PlanBuilder unsampled({});
  for (int32_t i = 0; i < 3; ++i) unsampled.Add(0, 2, 4, 1, {0}, i > 0);
  Stage(unsampled);
  EXPECT_EQ(inputs_->num_tokens(), 3);
  PlanBuilder prompt({});
  for (int32_t i = 0; i < 3; ++i) prompt.Add(0, 6, 5, 1, {0}, true);
  Stage(prompt);
  EXPECT_EQ(inputs_->num_tokens(), 3);
}

TEST_F(StepInputsTest, DiesOnATokenWithoutAPage) {
  PlanBuilder builder({});
  builder.Add(0, 9, 0, 9, {0}, true);
  const StepPlan plan = builder.plan();
  EXPECT_DEATH(inputs_->Stage(plan, plan.sub_batches[0], 8), "a planned token has no page");
}

}  // namespace
}  // namespace dunlin::engine
