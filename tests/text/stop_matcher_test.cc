// SPDX-License-Identifier: Apache-2.0
#include "text/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace dunlin::text {
namespace {

using testing::HasSubstr;

struct Outcome {
  std::string text;
  std::optional<int> stop_index;
  bool operator==(const Outcome&) const = default;
};

// The rule written down: the match whose end comes first, then the longest, then the first in the list.
Outcome Naive(const std::vector<std::string>& stops, const std::string& text, bool include_stop) {
  for (size_t end = 1; end <= text.size(); ++end) {
    const std::string_view seen = std::string_view(text).substr(0, end);
    std::optional<size_t> found;
    for (size_t i = 0; i < stops.size(); ++i) {
      const bool longer = !found || stops[i].size() > stops[*found].size();
      if (seen.ends_with(stops[i]) && longer) found = i;
    }
    if (found) {
      const size_t size = include_stop ? end : end - stops[*found].size();
      return {text.substr(0, size), static_cast<int>(*found)};
    }
  }
  return {text, std::nullopt};
}

Outcome Matched(StopMatcher matcher, const std::string& text, size_t max_piece, std::mt19937& random) {
  Outcome outcome;
  for (size_t at = 0; at < text.size();) {
    const size_t piece = std::min(text.size() - at, 1 + random() % max_piece);
    StopMatcher::Result result = matcher.Push(text.substr(at, piece));
    outcome.text += result.text;
    if (result.stop_index) outcome.stop_index = result.stop_index;
    at += piece;
  }
  outcome.text += matcher.Finish();
  return outcome;
}

std::string RandomText(std::mt19937& random, size_t size, unsigned letters) {
  std::string text(size, ' ');
  for (char& letter : text) letter = static_cast<char>('a' + random() % letters);
  return text;
}

TEST(StopMatcher, AgreesWithTheNaiveRuleHoweverTheTextIsCut) {
  std::mt19937 random(3);
  int matches = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<std::string> stops(random() % 5);
    for (std::string& stop : stops) stop = RandomText(random, 1 + random() % 7, 2 + round % 3);
    const std::string text = RandomText(random, random() % 40, 2 + round % 3);
    const bool include_stop = random() % 2 == 0;
    const Outcome expected = Naive(stops, text, include_stop);
    matches += expected.stop_index.has_value() ? 1 : 0;
    const StopMatcher matcher = StopMatcher::Create(stops, include_stop).value();
    for (const size_t max_piece : {1, 3, 50}) {
      ASSERT_EQ(Matched(matcher, text, max_piece, random), expected)
          << testing::PrintToString(stops) << " in " << text << " pieces up to " << max_piece;
    }
  }
  EXPECT_GT(matches, 5000);
  EXPECT_LT(matches, 19000);
}

TEST(StopMatcher, HoldsBackNoMoreThanAStopStringNeeds) {
  std::mt19937 random(4);
  for (int round = 0; round < 2000; ++round) {
    const std::vector<std::string> stops = {RandomText(random, 1 + random() % 6, 2), RandomText(random, 8, 2)};
    StopMatcher matcher = StopMatcher::Create(stops).value();
    std::string seen;
    while (!matcher.matched() && seen.size() < 30) {
      seen += RandomText(random, 1, 2);
      matcher.Push(seen.substr(seen.size() - 1));
      if (matcher.matched()) break;
      size_t needed = 0;
      for (const std::string& stop : stops) {
        for (size_t size = 1; size < stop.size() && size <= seen.size(); ++size) {
          if (seen.ends_with(stop.substr(0, size))) needed = std::max(needed, size);
        }
      }
      ASSERT_EQ(matcher.held_bytes(), needed) << seen << " " << testing::PrintToString(stops);
    }
  }
}

TEST(StopMatcher, FindsAStopAcrossPiecesAndReleasesNoneOfIt) {
  StopMatcher matcher = StopMatcher::Create({"</s>", "\n\n"}).value();
  EXPECT_EQ(matcher.Push("done<").text, "done");
  EXPECT_EQ(matcher.Push("/s").text, "");
  const StopMatcher::Result result = matcher.Push("> never sent");
  EXPECT_EQ(result.text, "");
  EXPECT_EQ(result.stop_index, 0);
  EXPECT_EQ(matcher.Push("nor this").text, "");
  EXPECT_EQ(matcher.Finish(), "");
}

TEST(StopMatcher, ReleasesHeldTextThatDidNotBecomeAStop) {
  StopMatcher matcher = StopMatcher::Create({"</s>"}).value();
  EXPECT_EQ(matcher.Push("a</").text, "a");
  EXPECT_EQ(matcher.Push("b>").text, "</b>");
  EXPECT_EQ(matcher.Push("<").text, "");
  EXPECT_EQ(matcher.Finish(), "<");
}

TEST(StopMatcher, IncludesTheStopStringWhenAsked) {
  StopMatcher matcher = StopMatcher::Create({"END"}, true).value();
  EXPECT_EQ(matcher.Push("xE").text, "x");
  EXPECT_EQ(matcher.Push("NDy").text, "END");
}

TEST(StopMatcher, SplitsOnlyBetweenCharacters) {
  StopMatcher matcher = StopMatcher::Create({"é!", "日"}).value();
  EXPECT_EQ(matcher.Push("caf\u00e9").text, "caf");
  EXPECT_EQ(matcher.Push("?月").text, "é?月");  // 月 shares its first byte with 日
  const StopMatcher::Result result = matcher.Push("x日");
  EXPECT_EQ(result.text, "x");
  EXPECT_EQ(result.stop_index, 1);
}

TEST(StopMatcher, RefusesInvalidStopStrings) {
  const auto message = [](const std::vector<std::string>& stops) {
    const auto matcher = StopMatcher::Create(stops);
    EXPECT_EQ(matcher.status().code(), absl::StatusCode::kInvalidArgument);
    return std::string(matcher.status().message());
  };
  EXPECT_THAT(message({"a", ""}), HasSubstr("stop[1] is empty"));
  EXPECT_THAT(message({std::string(257, 'a')}), HasSubstr("stop[0] has 257 bytes; limit is 256"));
  EXPECT_THAT(message({std::string(1 << 20, 'a')}), HasSubstr("limit is 256"));
  EXPECT_THAT(message(std::vector<std::string>(17, "a")), HasSubstr("stop has 17 strings; limit is 16"));
  EXPECT_THAT(message({"\xFF"}), HasSubstr("stop[0] is not valid UTF-8"));
  EXPECT_TRUE(StopMatcher::Create(std::vector<std::string>(16, std::string(256, 'a'))).ok());
}

}  // namespace
}  // namespace dunlin::text
