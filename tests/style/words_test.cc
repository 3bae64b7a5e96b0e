// SPDX-License-Identifier: Apache-2.0
// Words of docs/glossary.md in the product's headers, identifiers and comments alike: where "block" is a noun, and that
// a step outside the kernels is the engine's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <regex>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

struct WordRule {
  const char* word;     // what no line of the other rooms contains, once `allowed` is taken out of it
  const char* rooms;    // paths that use the word in the meaning of the glossary's table
  const char* allowed;  // anywhere: the verb, and names that an API, a format or a system has given
};

const WordRule kWordRules[] = {
    {"[Bb]lock",
     // Rooms in which the table gives the noun a meaning, and those that are still to be mended (weights).
     "^(kernels/|server/(fronts|transport/grpc)/|engine/cache/(keyed_hash|kv_events)|engine/base/|"
     "engine/model/|engine/layers/|tools/(quantize|cli|bench)/|text/chat_output/)",
     R"(\b(neither|[Nn]ever|not|none|must|may|can|nor|it|or|of the functions|then|copy;|,) (\w+ )?blocks?\b|)"
     R"(\bblocks? (until|on|for|at|but|forever|in|first|them|this)\b|\bWait blocks\b|\b[Bb]locked\b|\b[Bb]locking\b|)"
     R"(\bBlocks? (until|for|them|first|at most)\b|\bBlockSignals\b|blocked_pages|; blocks\b|\. Blocks?$|\bblock\.$|)"
     R"(\bKV blocks?\b|KvBlock\w*|tools? and blocks\b)"},
    {"\\bK[ -]steps?\\b|\\bkSteps\\b", "^kernels/", "$^"},
};

// The line, where it breaks the rule, or "".
std::string Breach(const WordRule& rule, const std::string& line) {
  const std::string rest = std::regex_replace(line, std::regex(rule.allowed), "");
  return std::regex_search(rest, std::regex(rule.word)) ? line : "";
}

TEST(Words, HaveTheGlossarysMeanings) {
  for (const WordRule& rule : kWordRules) {
    const std::regex rooms(rule.rooms);
    const std::regex word(rule.word);
    for (const SourceFile& file : SourceTree()) {
      if (!file.path.ends_with(".h") || file.path.starts_with("tests/") || std::regex_search(file.path, rooms))
        continue;
      for (const std::string& line : file.lines) {
        if (!std::regex_search(line, word)) continue;
        EXPECT_EQ(Breach(rule, line), "") << file.path;
      }
    }
  }
}

TEST(Words, RulesFindWhatTheyForbid) {
  EXPECT_NE(Breach(kWordRules[0], "// a block of the cache"), "");
  EXPECT_NE(Breach(kWordRules[0], "int32_t max_blocks = 0;"), "");
  EXPECT_EQ(Breach(kWordRules[0], "// Never blocks on a step."), "");
  EXPECT_EQ(Breach(kWordRules[0], "// what routers call a KV block"), "");
  EXPECT_NE(Breach(kWordRules[1], "// two K steps"), "");
}

}  // namespace
}  // namespace dunlin::style
