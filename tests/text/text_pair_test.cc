// SPDX-License-Identifier: Apache-2.0
// Pairs of texts: which tokens stay where there are too many, and where the special ones go.
#include "text/text_pair.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace dunlin::text {
namespace {

using ::testing::ElementsAre;

// What Hugging Face tokenizers keeps, one token at a time: the longer text loses its last; the first of equal ones.
PairLengths Stepwise(size_t first, size_t second, size_t room) {
  while (first + second > room) --(first >= second ? first : second);
  return {first, second};
}

TEST(TextPair, TheLongerTextLosesItsEndFirst) {
  for (size_t first = 0; first < 12; ++first) {
    for (size_t second = 0; second < 12; ++second) {
      for (size_t room = 0; room < 26; ++room) {
        const PairLengths kept = TruncatePair(first, second, room);
        const PairLengths stepwise = Stepwise(first, second, room);
        EXPECT_EQ(kept.first + kept.second, std::min(first + second, room));
        // Which of two equal texts keeps the odd token follows from the lengths before.
        EXPECT_LE(kept.first > stepwise.first ? kept.first - stepwise.first : stepwise.first - kept.first, 1U)
            << first << " " << second << " " << room;
      }
    }
  }
  EXPECT_EQ(TruncatePair(9, 4, 7).first, 4U);
  EXPECT_EQ(TruncatePair(4, 9, 7).second, 4U);
}

TEST(TextPair, SpecialTokensStandAroundBothTexts) {
  const std::vector<engine::TokenId> first = {10, 11};
  const std::vector<engine::TokenId> second = {20};
  const PairFrame bert = {.prefix = {1}, .middle = {2}, .suffix = {2}, .middle_first = 1};
  std::vector<engine::TokenId> tokens = {99};
  EXPECT_EQ(AppendPair(bert, first, second, &tokens), 4);
  EXPECT_THAT(tokens, ElementsAre(99, 1, 10, 11, 2, 20, 2));
  const PairFrame roberta = {.prefix = {0}, .middle = {2, 2}, .suffix = {2}, .middle_first = -1};
  tokens.clear();
  EXPECT_EQ(AppendPair(roberta, first, {}, &tokens), 6) << "all have type 0";
  EXPECT_THAT(tokens, ElementsAre(0, 10, 11, 2, 2, 2));
}

}  // namespace
}  // namespace dunlin::text
