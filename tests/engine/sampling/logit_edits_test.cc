// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/logit_edits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "kernels/cpu/sampling/logit_edits.h"
#include "tests/engine/sampling/sampling_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr float kMasked = -std::numeric_limits<float>::infinity();

// The lists as a device applies them: plainly, one after another.
std::vector<float> Edited(SampleCase test, std::vector<float> row) {
  test.eos_token_ids = {1};
  constexpr size_t kFirst = 3;
  const RowInput input = test.Input(row);
  std::vector<uint32_t> words(kFirst + NumEditWords(input.edits()) + 1, 0xFFFFFFFF);
  kernels::SampleRow draw = input.step().row;
  draw.edits = WriteEdits(input.edits(), words.data(), kFirst);
  EXPECT_EQ(draw.edits.first_word, static_cast<int32_t>(kFirst));
  EXPECT_EQ(words.back(), 0xFFFFFFFF) << "wrote past NumEditWords";
  kernels::cpu::ApplyEdits(draw, words.data(), static_cast<int32_t>(row.size()), row.data());
  return row;
}

TEST(LogitEdits, AreNotNeededByDefault) {
  SampleCase test;
  test.eos_token_ids = {1};
  const std::vector<float> row(4);
  EXPECT_EQ(NumEditWords(test.Input(row).edits()), 0U);
  test.stopping.min_tokens = 1;
  EXPECT_GT(NumEditWords(test.Input(row).edits()), 0U);
  test.tokens = {0, 2};  // one output token: the minimum is met
  EXPECT_EQ(NumEditWords(test.Input(row).edits()), 0U);
}

TEST(LogitEdits, AddLogitBias) {
  SampleCase test;
  test.sampling.logit_bias = {{2, 5.0F}, {0, -100.0F}};
  EXPECT_THAT(Edited(test, {1, 2, 3, 4}), ElementsAre(-99.0F, 2.0F, 8.0F, 4.0F));
}

// A tiny penalty is a client's wish: the row stays finite, so that it cannot count as a fault of the model.
TEST(LogitEdits, ExtremePenaltiesStayFinite) {
  constexpr float kMax = std::numeric_limits<float>::max();
  SampleCase test;
  test.tokens = {0, 1, 2};
  test.sampling.repetition_penalty = std::numeric_limits<float>::min();
  EXPECT_THAT(Edited(test, {20, 1e38F, -3e38F, 4}), ElementsAre(kMax, kMax, testing::Le(0.0F), 4.0F));
  test.sampling.repetition_penalty = 10.0F;
  test.sampling.frequency_penalty = -2.0F;
  EXPECT_THAT(Edited(test, {20, -3e38F, kMasked, 4}), ElementsAre(2.0F, -kMax, kMasked, 4.0F));
}

TEST(LogitEdits, ExtremePenaltiesStillDraw) {
  const std::vector<float> row = {20, 30, -5, 4};
  SampleCase test;
  test.tokens = {0, 1, 2, 3};
  test.sampling.repetition_penalty = std::numeric_limits<float>::min();
  for (const float temperature : {0.0F, 1.0F}) {
    test.sampling.temperature = temperature;
    Sampler sampler(4);
    TokenOutput out;
    EXPECT_TRUE(sampler.Sample(test.Input(row), &out)) << temperature;
  }
}

TEST(LogitEdits, RepetitionPenaltyCoversPromptAndOutputOnce) {
  SampleCase test;
  test.sampling.repetition_penalty = 2.0F;
  test.tokens = {0, 0, 1, 2, 2};  // prompt 0 0, output 1 2 2
  test.prompt_len = 2;
  EXPECT_THAT(Edited(test, {4, -4, 0, 4}), ElementsAre(2.0F, -8.0F, 0.0F, 4.0F));
}

// Counts of known tokens and drafts behind them are those of the same tokens, all known.
TEST(LogitEdits, DraftsCountAsOutput) {
  SampleCase test;
  test.sampling.repetition_penalty = 2.0F;
  test.sampling.frequency_penalty = 0.25F;
  test.tokens = {3, 4, 5, 4};
  test.prompt_len = 2;
  const std::vector<float> row = {1, 2, 3, 4, 5, 6, 7, 8};
  const RowInput known = test.Input(row);
  const std::vector<TokenId> drafts = {5, 7, 3, 7};
  LogitEditInput input = known.edits();
  input.drafts = drafts;
  std::vector<uint32_t> words(NumEditWords(input) + 1, 0xFFFFFFFF);
  kernels::SampleRow draw = known.step().row;
  draw.edits = WriteEdits(input, words.data(), 0);
  EXPECT_EQ(words.back(), 0xFFFFFFFF) << "wrote past NumEditWords";
  std::vector<float> edited = row;
  kernels::cpu::ApplyEdits(draw, words.data(), static_cast<int32_t>(row.size()), edited.data());
  test.tokens.insert(test.tokens.end(), drafts.begin(), drafts.end());
  EXPECT_EQ(edited, Edited(test, row));
}

TEST(LogitEdits, PresenceAndFrequencyPenaltiesCountTheOutputAlone) {
  SampleCase test;
  test.tokens = {0, 0, 1, 2, 2};
  test.prompt_len = 2;
  test.sampling.frequency_penalty = 0.5F;
  EXPECT_THAT(Edited(test, {4, 4, 4, 4}), ElementsAre(4.0F, 3.5F, 3.0F, 4.0F));
  test.sampling.presence_penalty = 0.25F;
  EXPECT_THAT(Edited(test, {4, 4, 4, 4}), ElementsAre(4.0F, 3.25F, 2.75F, 4.0F));
  test.sampling.frequency_penalty = 0.0F;
  test.sampling.presence_penalty = -1.0F;
  EXPECT_THAT(Edited(test, {4, 4, 4, 4}), ElementsAre(4.0F, 5.0F, 5.0F, 4.0F));
}

TEST(LogitEdits, ComeInTheStatedOrder) {
  SampleCase test;
  test.tokens = {0, 2};
  test.sampling.logit_bias = {{2, 2.0F}};
  test.sampling.repetition_penalty = 4.0F;
  test.sampling.frequency_penalty = 0.5F;
  test.sampling.presence_penalty = 0.25F;
  // (6 + 2) / 4 - 0.5 - 0.25
  EXPECT_THAT(Edited(test, {0, 0, 6, 0})[2], FloatEq(1.25F));
}

TEST(LogitEdits, MinTokensMasksEndAndStopTokensUntilItIsMet) {
  SampleCase test;
  test.stopping.min_tokens = 2;
  test.stopping.stop_token_ids = {3};
  EXPECT_THAT(Edited(test, {5, 5, 5, 5}), ElementsAre(5, kMasked, 5, kMasked));
  test.tokens = {0, 2};
  EXPECT_THAT(Edited(test, {5, 5, 5, 5}), ElementsAre(5, kMasked, 5, kMasked));
  test.tokens = {0, 2, 2};
  EXPECT_THAT(Edited(test, {5, 5, 5, 5}), ElementsAre(5, 5, 5, 5));
}

TEST(LogitEdits, IgnoreEosLeavesEndOfSequenceDrawable) {
  SampleCase test;
  test.stopping.min_tokens = 2;
  test.stopping.ignore_eos = true;
  test.stopping.stop_token_ids = {3};
  EXPECT_THAT(Edited(test, {5, 5, 5, 5}), ElementsAre(5, 5, 5, kMasked));
}

TEST(LogitEdits, AllowedTokensMasksTheRestAcrossWords) {
  SampleCase test;
  test.allowed_tokens = {1U << 31, 1U << 2};  // tokens 31 and 34
  const std::vector<float> row = Edited(test, std::vector<float>(40, 1.0F));
  for (size_t i = 0; i < row.size(); ++i) EXPECT_EQ(row[i], i == 31 || i == 34 ? 1.0F : kMasked) << i;
}

}  // namespace
}  // namespace dunlin::engine
