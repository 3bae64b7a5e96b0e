// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "tests/text/golden_files.h"

namespace dunlin::text {
namespace {

// The tokenizer's own check is the oracle: the Rust standard library's.
bool Accepted(const std::string& text) {
  return Goldens()[0].tokenizer->Encode(text, {.add_special_tokens = false, .parse_special = false}).ok();
}

TEST(Utf8, AgreesWithTheTokenizerOnAllPairsOfBytes) {
  int valid = 0;
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      ASSERT_EQ(IsValidUtf8(text), Accepted(text)) << first << " " << second;
      valid += IsValidUtf8(text) ? 1 : 0;
    }
  }
  EXPECT_EQ(valid, 128 * 128 + 30 * 64);  // two ASCII letters, or one character of two bytes
}

TEST(Utf8, AgreesWithTheTokenizerOnLongerSequences) {
  const std::string edges = {'\x00', '\x7F', '\x80', '\x8F', '\x90', '\x9F', '\xA0', '\xBF',
                             '\xC0', '\xC1', '\xC2', '\xDF', '\xE0', '\xE1', '\xEC', '\xED',
                             '\xEE', '\xEF', '\xF0', '\xF1', '\xF3', '\xF4', '\xF5', '\xFF'};
  std::mt19937 random(5);
  for (int round = 0; round < 100000; ++round) {
    std::string text(1 + random() % 6, ' ');
    for (char& byte : text) byte = edges[random() % edges.size()];
    ASSERT_EQ(IsValidUtf8(text), Accepted(text)) << testing::PrintToString(text);
  }
}

TEST(Utf8, AcceptsTheEmptyTextAndNul) {
  EXPECT_TRUE(IsValidUtf8(""));
  EXPECT_TRUE(IsValidUtf8(std::string("a\0b", 3)));
}

}  // namespace
}  // namespace dunlin::text
