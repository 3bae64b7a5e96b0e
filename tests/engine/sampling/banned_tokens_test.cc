// SPDX-License-Identifier: Apache-2.0
// Which tokens are banned next: suppressed ones, ends of bad words; and the mask of allowed_token_ids.
#include "engine/sampling/banned_tokens.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "kernels/api/logits.h"
#include "tests/engine/sampling/sampling_fixture.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> Banned(const SamplingParams& sampling, const std::vector<TokenId>& tokens, int32_t prompt_len,
                            const StoppingParams& stopping = {}) {
  std::vector<TokenId> banned;
  AppendBanned(tokens, prompt_len, sampling, stopping, std::vector<TokenId>{9}, &banned);
  return banned;
}

TEST(BannedTokens, TheLastTokenOfABadWordIsBannedBehindItsOthers) {
  SamplingParams sampling;
  sampling.bad_words = {{1, 2, 3}};
  EXPECT_THAT(Banned(sampling, {5, 1, 2}, 1), ElementsAre(3));
  EXPECT_THAT(Banned(sampling, {5, 2, 1}, 1), IsEmpty());
  EXPECT_THAT(Banned(sampling, {1, 2, 5}, 1), IsEmpty()) << "they must be the last tokens";
  EXPECT_THAT(Banned(sampling, {5, 1, 2}, 3), ElementsAre(3)) << "all in the prompt";
  EXPECT_THAT(Banned(sampling, {5, 1, 2}, 2), ElementsAre(3)) << "one in the prompt, one in the output";
  EXPECT_THAT(Banned(sampling, {1, 2}, 2), ElementsAre(3)) << "they are the whole prompt";
  EXPECT_THAT(Banned(sampling, {2}, 1), IsEmpty()) << "shorter than they are";
}

TEST(BannedTokens, ABadWordOfOneTokenIsBannedEverywhere) {
  SamplingParams sampling;
  sampling.bad_words = {{4}, {4, 4}, {6, 7}};
  EXPECT_THAT(Banned(sampling, {6}, 1), ElementsAre(4, 7));
  EXPECT_THAT(Banned(sampling, {6, 4}, 1), ElementsAre(4, 4));
}

TEST(BannedTokens, SuppressedTokensAreBannedAlwaysOrAtTheBeginning) {
  SamplingParams sampling;
  sampling.suppressed_token_ids = {2, 3};
  sampling.begin_suppressed_token_ids = {7};
  EXPECT_THAT(Banned(sampling, {5, 5}, 2), ElementsAre(2, 3, 7));
  EXPECT_THAT(Banned(sampling, {5, 5}, 1), ElementsAre(2, 3));
}

TEST(BannedTokens, StopTokensAreBannedUntilMinTokens) {
  StoppingParams stopping;
  stopping.min_tokens = 2;
  stopping.stop_token_ids = {8};
  EXPECT_THAT(Banned({}, {5, 5}, 1, stopping), ElementsAre(8, 9));
  EXPECT_THAT(Banned({}, {5, 5, 5}, 1, stopping), IsEmpty());
  stopping.ignore_eos = true;
  EXPECT_THAT(Banned({}, {5, 5}, 1, stopping), ElementsAre(8));
}

TEST(BannedTokens, MaxBannedTokensIsTheMost) {
  SamplingParams sampling;
  sampling.suppressed_token_ids.assign(kMaxSuppressedTokenIds, 1);
  sampling.begin_suppressed_token_ids.assign(kMaxSuppressedTokenIds, 1);
  sampling.bad_words.assign(kMaxBadWords, {1});
  StoppingParams stopping;
  stopping.min_tokens = 1;
  stopping.stop_token_ids.assign(kMaxStopTokenIds, 1);
  EXPECT_EQ(Banned(sampling, {5}, 1, stopping).size(), MaxBannedTokens(1));
}

class AllowedTokens : public ::testing::Test {
 protected:
  static std::vector<TokenId> Drawable(const SampleCase& test, int32_t vocab_size) {
    const std::vector<float> logits(static_cast<size_t>(vocab_size));
    const RowInput input = test.Input(logits);
    std::vector<uint32_t> mask(NumEditWords(input.edits()));
    EXPECT_TRUE(WriteEdits(input.edits(), mask.data(), 0).has_mask);
    EXPECT_EQ(mask.size(), static_cast<size_t>(kernels::MaskWords(vocab_size)));
    std::vector<TokenId> ids;
    for (TokenId id = 0; id < vocab_size; ++id) {
      if (kernels::Allows(mask.data(), id)) ids.push_back(id);
    }
    return ids;
  }
};

TEST_F(AllowedTokens, AreTheOnlyOnesInTheMask) {
  SampleCase test;
  test.sampling.allowed_token_ids = {0, 31, 32, 69, 31};
  EXPECT_THAT(Drawable(test, 70), ElementsAre(0, 31, 32, 69));
}

TEST_F(AllowedTokens, AreNarrowedByAGrammar) {
  SampleCase test;
  test.sampling.allowed_token_ids = {0, 31, 32, 69};
  test.allowed_tokens = {1U << 31 | 1U << 5, 0, 1U << 5};
  EXPECT_THAT(Drawable(test, 70), ElementsAre(31, 69));
}

TEST_F(AllowedTokens, OnlyTheyAreDrawnAndEndOfSequenceOnlyIfListed) {
  const std::vector<float> logits = RandomLogits(90, 1.0F, 3);
  SampleCase test;
  test.eos_token_ids = {1};
  test.sampling.allowed_token_ids = {3, 77, 40};
  test.sampling.bad_words = {{40}};
  Sampler sampler(90);
  std::vector<int> seen(90);
  for (uint64_t seed = 0; seed < 200; ++seed) {
    test.sampling.seed = seed;
    TokenOutput out;
    ASSERT_TRUE(sampler.Sample(test.Input(logits), &out));
    ++seen[static_cast<size_t>(out.token_id)];
  }
  EXPECT_GT(seen[3], 0);
  EXPECT_GT(seen[77], 0);
  EXPECT_EQ(seen[3] + seen[77], 200);
}

// Output k of a request with n > 1 is the output of a request with n = 1 and the derived seed.
TEST(SeedOfOutput, IsTheSeedOfARequestOfOneOutput) {
  EXPECT_EQ(SeedOfOutput(7, 0), 7U);
  EXPECT_EQ(SeedOfOutput(7, 2), 7U + 2 * 0x9E3779B97F4A7C15U);
  const std::vector<float> logits = RandomLogits(500, 1.0F, 4);
  Sampler sampler(500);
  int different = 0;
  for (int32_t k = 0; k < 8; ++k) {
    SampleCase of_many;
    of_many.sampling.seed = 4711;
    of_many.output_index = k;
    SampleCase alone;
    alone.sampling.seed = SeedOfOutput(4711, k);
    TokenOutput a;
    TokenOutput b;
    ASSERT_TRUE(sampler.Sample(of_many.Input(logits), &a));
    ASSERT_TRUE(sampler.Sample(alone.Input(logits), &b));
    EXPECT_EQ(a.token_id, b.token_id) << k;
    of_many.output_index = 0;
    ASSERT_TRUE(sampler.Sample(of_many.Input(logits), &b));
    different += a.token_id != b.token_id ? 1 : 0;
  }
  EXPECT_GT(different, 4);
}

}  // namespace
}  // namespace dunlin::engine
