// SPDX-License-Identifier: Apache-2.0
// Sizes: files and functions stay small, and what is over the limit is listed in size_ratchet.txt or
// function_ratchet.txt with a size that may only fall.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

constexpr size_t kMaxLines = 400;        // of a file that is not listed
constexpr size_t kHardMaxLines = 600;    // of any file
constexpr size_t kMaxMedianLines = 130;  // over the files of kernels, engine and server
constexpr size_t kMaxColumns = 120;
constexpr size_t kMaxFunctionLines = 70;

// Path (of a function: PATH:FIRST WORDS) to lines.
std::map<std::string, size_t> Ratchet(const std::string& name) {
  std::ifstream stream(std::string(DUNLIN_SOURCE_DIR "/tests/style/") + name);
  std::map<std::string, size_t> sizes;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream fields(line);
    std::string path;
    size_t lines = 0;
    if (fields >> path >> lines && path[0] != '#') sizes[path] = lines;
  }
  return sizes;
}

struct Function {
  size_t first_line;  // from 1, where the opening brace is
  size_t lines;
};

// The functions of a C++ file in the project's format: a brace that opens at the end of an unindented line, or of one
// indented by two inside a class, and closes alone at the same indentation.
std::vector<Function> FunctionsOf(const std::vector<std::string>& lines) {
  static const std::regex kOpens("^( {0,2})[^ /}#].*\\{$");
  static const std::regex kOther("^ *(typedef|namespace|extern|class|struct|enum|union)\\b|= \\{$");
  std::vector<Function> functions;
  size_t first = 0;    // line of the open function, from 0
  std::string closes;  // what ends it; empty outside functions
  for (size_t i = 0; i < lines.size(); ++i) {
    std::smatch match;
    if (closes.empty() && std::regex_match(lines[i], match, kOpens) && !std::regex_search(lines[i], kOther)) {
      first = i;
      closes = match[1].str() + "}";
    } else if (!closes.empty() && lines[i].rfind(closes, 0) == 0) {
      functions.push_back({first + 1, i - first + 1});
      closes.clear();
    }
  }
  return functions;
}

TEST(Size, FunctionsStayShort) {
  const auto ratchet = Ratchet("function_ratchet.txt");
  size_t functions = 0;
  std::map<std::string, size_t> long_ones;  // the longest of a file
  for (const SourceFile& file : SourceTree()) {
    if (file.path.size() > 3 && file.path.substr(file.path.size() - 3) == ".rs") continue;
    for (const Function& function : FunctionsOf(file.lines)) {
      ++functions;
      if (function.lines <= kMaxFunctionLines) continue;
      size_t& longest = long_ones[file.path];
      longest = std::max(longest, function.lines);
      const auto listed = ratchet.find(file.path);
      EXPECT_LE(function.lines, listed == ratchet.end() ? kMaxFunctionLines : listed->second)
          << file.path << ":" << function.first_line;
    }
  }
  EXPECT_GT(functions, 2000U);  // the pattern still finds functions
  for (const auto& [path, lines] : ratchet) {
    EXPECT_EQ(long_ones.count(path), 1U) << path << " has only short functions now: take it off the list";
  }
}

TEST(Size, FunctionLengthCountsWholeFunctions) {
  const std::vector<std::string> lines = {"int Free(int a) {",
                                          "  if (a) {",
                                          "  }",
                                          "  return a;",
                                          "}",
                                          "struct Holder {",
                                          "  int Get() const {",
                                          "    return 1;",
                                          "  }",
                                          "};",
                                          "const int kRows[] = {",
                                          "    1,",
                                          "};"};
  const std::vector<Function> functions = FunctionsOf(lines);
  ASSERT_EQ(functions.size(), 2U);
  EXPECT_EQ(functions[0].lines, 5U);
  EXPECT_EQ(functions[1].lines, 3U);
}

TEST(Size, FilesStaySmallOrShrink) {
  const auto ratchet = Ratchet("size_ratchet.txt");
  for (const SourceFile& file : SourceTree()) {
    const auto listed = ratchet.find(file.path);
    const size_t limit = listed == ratchet.end() ? kMaxLines : std::min(listed->second, kHardMaxLines);
    EXPECT_LE(file.lines.size(), limit) << file.path;
    if (listed != ratchet.end()) {
      EXPECT_GT(file.lines.size(), kMaxLines) << file.path << " is small now: take it off the list";
    }
  }
}

TEST(Size, MedianFileIsShort) {
  std::vector<size_t> sizes;
  for (const SourceFile& file : SourceTree()) {
    if (file.path.rfind("tests/", 0) != 0) sizes.push_back(file.lines.size());
  }
  ASSERT_FALSE(sizes.empty());
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2), sizes.end());
  EXPECT_LE(sizes[sizes.size() / 2], kMaxMedianLines);
}

TEST(Size, LinesFitTheColumnLimit) {
  for (const SourceFile& file : SourceTree()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      // A line of a table or a string that cannot be broken counts bytes, not columns: look at ASCII ones alone.
      EXPECT_LE(file.lines[i].size(), kMaxColumns + 20) << file.path << ":" << i + 1;
    }
  }
}

TEST(Size, EveryFileSaysWhatItIs) {
  for (const SourceFile& file : SourceTree()) {
    ASSERT_GE(file.lines.size(), 2U) << file.path;
    EXPECT_EQ(file.lines[0], "// SPDX-License-Identifier: Apache-2.0") << file.path;
    if (file.path.substr(file.path.size() - 2) != ".h") continue;
    EXPECT_EQ(file.lines[1].substr(0, 3), "// ") << file.path << ": the second line says what the file is";
  }
}

}  // namespace
}  // namespace dunlin::style
