// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/token_counts.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "kernels/api/logits.h"

namespace dunlin::engine {
namespace {

// The counts by reading the whole sequence.
std::vector<std::pair<TokenId, int32_t>> Scan(const std::vector<TokenId>& prompt, const std::vector<TokenId>& output) {
  std::vector<std::pair<TokenId, int32_t>> counts;
  const auto at = [&counts](TokenId token) -> int32_t& {
    for (auto& [id, count] : counts) {
      if (id == token) return count;
    }
    return counts.emplace_back(token, 0).second;
  };
  for (const TokenId token : prompt) at(token) |= kernels::kInPrompt;
  for (const TokenId token : output) ++at(token);
  return counts;
}

TEST(TokenCounts, AreThoseOfAScanAfterEveryTokenInTheOrderOfFirstOccurrence) {
  std::mt19937 random(1);
  for (const int range : {1, 7, 300, 200000}) {
    const auto any = [&] { return static_cast<TokenId>(random() % static_cast<unsigned>(range)); };
    std::vector<TokenId> prompt(200);
    std::generate(prompt.begin(), prompt.end(), any);
    std::vector<TokenId> output;
    TokenCounts counts;
    counts.Start(prompt, 100);
    for (int i = 0; i < 100; ++i) {
      output.push_back(any());
      counts.AddOutput(output.back());
      std::vector<std::pair<TokenId, int32_t>> listed;
      for (const TokenCount& token : counts.list()) listed.emplace_back(token.id, token.count);
      ASSERT_EQ(listed, Scan(prompt, output)) << range << " " << i;
    }
  }
}

TEST(TokenCounts, LeaveRowTokensOut) {
  TokenCounts counts;
  EXPECT_FALSE(counts.started());
  counts.Start(std::vector<TokenId>{kFirstRowToken, kFirstRowToken + 7}, 10);
  EXPECT_TRUE(counts.started());
  EXPECT_TRUE(counts.list().empty());
  counts.AddOutput(3);
  ASSERT_EQ(counts.list().size(), 1U);
  EXPECT_EQ(counts.list()[0].id, 3);
  EXPECT_EQ(counts.list()[0].count, 1);
}

TEST(TokenCounts, KeepTheirMemoryWhileTokensCome) {
  TokenCounts counts;
  counts.Start(std::vector<TokenId>{4}, 1000);
  const TokenCount* list = counts.list().data();
  for (TokenId token = 0; token < 1000; ++token) counts.AddOutput(token);
  EXPECT_EQ(counts.list().data(), list);
  EXPECT_EQ(counts.list().size(), 1000U);
}

TEST(TokenCounts, GrowWithALongOutputAndNotWithWhatItMayHave) {
  TokenCounts counts;
  counts.Start(std::vector<TokenId>{4, 5}, 1 << 20);
  std::vector<TokenId> output;
  for (TokenId token = 0; token < 5000; ++token) {
    output.push_back(token * 31 % 4001);
    counts.AddOutput(output.back());
  }
  std::vector<std::pair<TokenId, int32_t>> listed;
  for (const TokenCount& token : counts.list()) listed.emplace_back(token.id, token.count);
  EXPECT_EQ(listed, Scan({4, 5}, output));
}

TEST(TokenCounts, CountNothingBeforeTheyAreStarted) {
  TokenCounts counts;
  counts.AddOutput(3);
  EXPECT_TRUE(counts.list().empty());
}

}  // namespace
}  // namespace dunlin::engine
