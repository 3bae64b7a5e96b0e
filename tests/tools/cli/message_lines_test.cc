// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/message_lines.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace dunlin::cli {
namespace {

// The messages of these lines; one that is open at the end comes last, marked with "...".
std::vector<std::string> Messages(const std::vector<std::string>& lines) {
  MessageLines input;
  std::vector<std::string> messages;
  for (const std::string& line : lines) {
    if (input.Add(line)) messages.push_back(input.Take());
  }
  if (input.open()) messages.push_back("..." + input.Take());
  return messages;
}

using Lines = std::vector<std::string>;

TEST(MessageLines, ALineIsAMessage) {
  EXPECT_EQ(Messages({"a", "", "b \"\"\" c"}), (Lines{"a", "", "b \"\"\" c"}));
}

TEST(MessageLines, ABackslashAtTheEndContinues) {
  EXPECT_EQ(Messages({"a\\", "b\\", "", "c"}), (Lines{"a\nb\n", "c"}));
  EXPECT_EQ(Messages({"C:\\\\", "d"}), (Lines{"C:\\\\", "d"})) << "two are text";
  EXPECT_EQ(Messages({"\\", "x"}), (Lines{"\nx"}));
  EXPECT_EQ(Messages({"a\\"}), (Lines{"...a"}));
}

TEST(MessageLines, ABlockKeepsItsLines) {
  EXPECT_EQ(Messages({"\"\"\"", "a", "", "b\\", "\"\"\"", "c"}), (Lines{"a\n\nb\\", "c"}));
  EXPECT_EQ(Messages({"\"\"\"a", "b\"\"\""}), (Lines{"a\nb"}));
  EXPECT_EQ(Messages({"\"\"\"a\"\"\"", "\"\"\"\"\"\""}), (Lines{"a", ""}));
  EXPECT_EQ(Messages({"\"\"\"", "a"}), (Lines{"...a"}));
}

TEST(MessageLines, TellsBlocksFromLines) {
  MessageLines input;
  EXPECT_TRUE(input.Add("\"\"\"/x\"\"\""));
  EXPECT_TRUE(input.block());
  input.Take();
  EXPECT_TRUE(input.Add("/x"));
  EXPECT_FALSE(input.block());
}

}  // namespace
}  // namespace dunlin::cli
