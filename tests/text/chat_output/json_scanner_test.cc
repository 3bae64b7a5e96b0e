// SPDX-License-Identifier: Apache-2.0
// The scanner takes what a JSON library takes, and nothing else, on random texts of JSON's characters.
#include "text/chat_output/json_scanner.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>
#include <string>

namespace dunlin::text {
namespace {

// Whether the scanner takes all of a text.
bool Accepts(const std::string& text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const Scan scan = scanner.Take(text[i]);
    if (scan == Scan::kDone) return i + 1 == text.size();
    if (scan != Scan::kMore) return false;
  }
  return scanner.ends_here();
}

TEST(JsonScanner, TakesWhatTheLibraryTakes) {
  for (const char* text : {R"({"a": [1, -0.5e+3, true, false, null, "x\"\\\/\b\f\n\r\t\u00e9é", {}, []]})", "0", "-1",
                           "\"\"", R"([[[{"a":{"b":[0]}}]]])", "[ ]", "{ }"}) {
    ASSERT_TRUE(nlohmann::json::accept(text)) << text;
    EXPECT_TRUE(Accepts(text)) << text;
  }
  for (const char* text : {"",        "01",          "1.",       ".5",      "+1",       "-",     "1e",  "tru",
                           "truth",   "[1,]",        "[,1]",     "{\"a\"}", "{\"a\":}", "{a:1}", "[1}", "{\"a\":1]",
                           "\"\\x\"", "\"\\u12g4\"", "\"a\nb\"", "{,}",     "[1 2]",    "'a'",   "NaN"}) {
    ASSERT_FALSE(nlohmann::json::accept(text)) << text;
    EXPECT_FALSE(Accepts(text)) << text;
  }
}

TEST(JsonScanner, AgreesWithTheLibraryOnRandomTexts) {
  constexpr std::string_view kPieces[] = {"{",  "}", "[", "]", ",", ":", "\"a\"", "\"",
                                          "\\", "1", "0", "-", ".", "e", "true",  "null"};
  std::mt19937 random(5);
  int accepted = 0;
  for (int round = 0; round < 200000; ++round) {
    std::string text;
    for (size_t i = 1 + random() % 7; i > 0; --i) text += kPieces[random() % std::size(kPieces)];
    const bool expected = nlohmann::json::accept(text);
    ASSERT_EQ(Accepts(text), expected) << text;
    accepted += expected ? 1 : 0;
  }
  EXPECT_GT(accepted, 1000);
}

TEST(JsonScanner, BoundsTheDepth) {
  const std::string deep(JsonScanner::kMaxDepth, '[');
  EXPECT_TRUE(Accepts(deep + std::string(JsonScanner::kMaxDepth, ']')));
  EXPECT_FALSE(Accepts("[" + deep + std::string(JsonScanner::kMaxDepth + 1, ']')));
}

}  // namespace
}  // namespace dunlin::text
