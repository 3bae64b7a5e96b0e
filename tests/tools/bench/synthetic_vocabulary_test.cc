// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/synthetic_vocabulary.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "text/tokenizer.h"

namespace dunlin::tools::bench {
namespace {

TEST(SyntheticVocabulary, IsATokenizerOfDistinctTokensWithEveryByte) {
  for (const int32_t vocab_size : {kMinSyntheticVocabulary, 50257, 128256}) {
    const auto tokenizer = text::Tokenizer::FromJson(SyntheticTokenizerJson(vocab_size), "", vocab_size);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocab_size(), vocab_size);
    EXPECT_EQ((*tokenizer)->special_token_ids(), std::vector<engine::TokenId>{vocab_size - 1});
    std::set<std::string> tokens;
    int words = 0;
    for (engine::TokenId id = 0; id + 1 < vocab_size; ++id) {
      const auto bytes = (*tokenizer)->TokenBytes(id);
      ASSERT_TRUE(bytes.ok()) << id;
      if (id < 256) {
        EXPECT_EQ(*bytes, std::string(1, static_cast<char>(id)));
      }
      words += bytes->size() > 2 && (*bytes)[0] == ' ' && std::isalpha((*bytes)[1]) != 0 ? 1 : 0;
      tokens.insert(*bytes);
    }
    EXPECT_EQ(tokens.size(), static_cast<size_t>(vocab_size) - 1);
    if (vocab_size == 50257) {
      EXPECT_GT(words, vocab_size / 3);
    }
  }
}

TEST(SyntheticVocabulary, IsTheSameEachTime) {
  EXPECT_EQ(SyntheticTokenizerJson(50257), SyntheticTokenizerJson(50257));
}

}  // namespace
}  // namespace dunlin::tools::bench
