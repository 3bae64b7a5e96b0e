// SPDX-License-Identifier: Apache-2.0
#include "engine/speculation/ngram_drafter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <random>

#include "engine/request/speculation.h"

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> DraftsAfter(std::vector<TokenId> prompt, const std::vector<TokenId>& output, int32_t max_drafts) {
  NgramDrafter drafter(prompt, 100);
  std::vector<TokenId> drafts;
  for (const TokenId token : output) {
    prompt.push_back(token);
    drafts.clear();
    drafter.Draft(prompt, max_drafts, &drafts);
  }
  if (output.empty()) drafter.Draft(prompt, max_drafts, &drafts);
  return drafts;
}

TEST(NgramDrafter, GoesOnAsThePromptWentOnBehindTheSameTokens) {
  EXPECT_THAT(DraftsAfter({1, 2, 3, 4, 5, 6, 7, 8, 9}, {3, 4, 5}, 3), ElementsAre(6, 7, 8));
  EXPECT_THAT(DraftsAfter({1, 2, 3, 4, 5, 6, 7, 1, 2, 3}, {}, 2), ElementsAre(4, 5));
}

TEST(NgramDrafter, HasNoGuessBehindTokensThatAreNew) {
  EXPECT_THAT(DraftsAfter({1, 2, 3, 4, 5, 6}, {3, 4, 7}, 4), IsEmpty());
  EXPECT_THAT(DraftsAfter({1}, {}, 4), IsEmpty());
  EXPECT_THAT(DraftsAfter({1, 1, 1}, {}, 4), IsEmpty());
}

TEST(NgramDrafter, FindsTheOutputToo) {
  EXPECT_THAT(DraftsAfter({9}, {1, 2, 3, 4, 5, 1, 2, 3}, 2), ElementsAre(4, 5));
}

TEST(NgramDrafter, TakesTheLatestPlaceAndTheLongerOfTwoMatches) {
  EXPECT_THAT(DraftsAfter({1, 2, 3, 7, 8, 1, 2, 3, 9, 8}, {1, 2, 3}, 1), ElementsAre(9));
  // The last three tokens stood later in front of 30, the last six in front of 20.
  EXPECT_THAT(DraftsAfter({1, 2, 3, 4, 5, 6, 20, 4, 5, 6, 30}, {1, 2, 3, 4, 5, 6}, 1), ElementsAre(20));
}

TEST(NgramDrafter, GoesOnRepeatingWhatRepeats) {
  EXPECT_THAT(DraftsAfter({5, 6, 5, 6, 5, 6}, {}, 5), ElementsAre(5, 6, 5, 6, 5));
}

// A table is written over, so that a place may be lost, but what is guessed always stood behind the same three tokens.
TEST(NgramDrafter, GuessesOnlyWhatFollowedTheSameTokens) {
  std::mt19937_64 dice(3);
  std::vector<TokenId> tokens(8);
  NgramDrafter drafter(tokens, 16);  // far fewer than come
  int guesses = 0;
  for (int i = 0; i < 4000; ++i) {
    tokens.push_back(static_cast<TokenId>(dice() % 12));
    std::vector<TokenId> drafts;
    drafter.Draft(tokens, 1, &drafts);
    if (drafts.empty()) continue;
    ++guesses;
    bool followed = false;
    for (size_t end = 3; end < tokens.size() && !followed; ++end) {
      followed = std::equal(tokens.end() - 3, tokens.end(), tokens.begin() + static_cast<std::ptrdiff_t>(end) - 3) &&
                 tokens[end] == drafts[0];
    }
    ASSERT_TRUE(followed);
  }
  EXPECT_GT(guesses, 10);
}

TEST(MaxDrafts, AreNamedByWordsAndNumbers) {
  EXPECT_EQ(MaxDraftsNamed("off"), 0);
  EXPECT_EQ(MaxDraftsNamed("0"), 0);
  EXPECT_EQ(MaxDraftsNamed("auto"), kAutoDrafts);
  EXPECT_EQ(MaxDraftsNamed("1"), 1);
  EXPECT_EQ(MaxDraftsNamed("16"), 16);
  for (const char* word : {"", "17", "00", "01", "-1", "1.0", "on", "AUTO", "160", "1099511627776"}) {
    EXPECT_EQ(MaxDraftsNamed(word), std::nullopt) << word;
  }
}

}  // namespace
}  // namespace dunlin::engine
