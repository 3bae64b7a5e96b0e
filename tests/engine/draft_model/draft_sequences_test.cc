// SPDX-License-Identifier: Apache-2.0
#include "engine/draft_model/draft_sequences.h"

#include <gtest/gtest.h>

#include <numeric>

namespace dunlin::engine {
namespace {

DraftSequencesOptions Options() {
  return {.num_sequences = 2, .num_pages = 6, .num_groups = 1, .tokens_per_page = 4, .max_tokens = 16};
}

std::vector<TokenId> Tokens(size_t count) {
  std::vector<TokenId> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 1);
  return tokens;
}

// As a pass that computes all of them.
void Compute(DraftSequences* sequences, DraftSequence* sequence) {
  ASSERT_EQ(sequences->Reserve(sequence, sequence->num_tokens()), sequence->num_tokens());
  sequence->num_computed = sequence->num_tokens();
}

TEST(DraftSequences, KeepWhatGuessesAndDrawsHaveInCommon) {
  DraftSequences sequences(Options());
  sequences.BeginCall();
  DraftSequence* sequence = sequences.Find(7, Tokens(5));
  EXPECT_EQ(sequence->num_uncomputed(), 5);
  Compute(&sequences, sequence);
  for (const TokenId guess : {6, 7, 9}) {
    sequence->tokens.push_back(guess);
    Compute(&sequences, sequence);
  }
  sequences.BeginCall();
  EXPECT_EQ(sequences.Find(7, Tokens(9)), sequence);  // two guesses were drawn, then 8 and 9
  EXPECT_EQ(sequence->num_computed, 7);
  EXPECT_EQ(sequence->tokens, Tokens(9));
}

TEST(DraftSequences, ComputeTheLastTokenAgainSoThatItGivesTheNext) {
  DraftSequences sequences(Options());
  for (int call = 0; call < 2; ++call) {
    sequences.BeginCall();
    DraftSequence* sequence = sequences.Find(1, Tokens(5));
    EXPECT_EQ(sequence->num_uncomputed(), call == 0 ? 5 : 1);
    Compute(&sequences, sequence);
  }
  sequences.BeginCall();
  EXPECT_EQ(sequences.Find(1, Tokens(3))->num_uncomputed(), 1);  // fewer than before
}

TEST(DraftSequences, TheOneAskedForLeastRecentlyMakesRoom) {
  DraftSequences sequences(Options());
  DraftSequence* first = nullptr;
  for (const RequestId id : {1, 2, 1}) {
    sequences.BeginCall();
    first = sequences.Find(id, Tokens(8));
    Compute(&sequences, first);
  }
  EXPECT_EQ(sequences.pool().num_free(), 2);
  sequences.BeginCall();
  DraftSequence* third = sequences.Find(3, Tokens(12));  // in place of 2, whose pages come back
  ASSERT_NE(third, nullptr);
  EXPECT_NE(third, first);
  EXPECT_EQ(sequences.pool().num_free(), 4);
  Compute(&sequences, third);
  EXPECT_EQ(sequences.pool().num_free(), 1);
  sequences.BeginCall();
  EXPECT_EQ(sequences.Find(1, Tokens(9))->num_computed, 8);
}

TEST(DraftSequences, PagesOfThisCallStay) {
  DraftSequences sequences(Options());
  sequences.BeginCall();
  DraftSequence* first = sequences.Find(1, Tokens(16));
  Compute(&sequences, first);
  DraftSequence* second = sequences.Find(2, Tokens(16));
  EXPECT_EQ(sequences.Reserve(second, 16), 8);  // what is left
  EXPECT_EQ(sequences.Find(3, Tokens(2)), nullptr);
  sequences.BeginCall();
  second = sequences.Find(2, Tokens(16));
  EXPECT_EQ(sequences.Reserve(second, 16), 16);
  EXPECT_EQ(first->id, 0U);
  EXPECT_EQ(sequences.pool().num_free(), 2);
  EXPECT_TRUE(sequences.pool().CheckIntegrity().ok());
}

TEST(DraftSequences, ALongerContextThanTheirsHasNoPlace) {
  DraftSequences sequences(Options());
  sequences.BeginCall();
  EXPECT_EQ(sequences.Find(1, Tokens(17)), nullptr);
  EXPECT_NE(sequences.Find(1, Tokens(16)), nullptr);
}

}  // namespace
}  // namespace dunlin::engine
