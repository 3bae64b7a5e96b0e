// SPDX-License-Identifier: Apache-2.0
// Sizes: files stay small, and what is over the limit is listed in size_ratchet.txt with a size that may only fall.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
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

std::map<std::string, size_t> Ratchet() {
  std::ifstream stream(DUNLIN_SOURCE_DIR "/tests/style/size_ratchet.txt");
  std::map<std::string, size_t> sizes;
  for (std::string line; std::getline(stream, line);) {
    std::istringstream fields(line);
    std::string path;
    size_t lines = 0;
    if (fields >> path >> lines && path[0] != '#') sizes[path] = lines;
  }
  return sizes;
}

TEST(Size, FilesStaySmallOrShrink) {
  const auto ratchet = Ratchet();
  for (const SourceFile& file : ReadSourceTree()) {
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
  for (const SourceFile& file : ReadSourceTree()) {
    if (file.path.rfind("tests/", 0) != 0) sizes.push_back(file.lines.size());
  }
  ASSERT_FALSE(sizes.empty());
  std::nth_element(sizes.begin(), sizes.begin() + static_cast<std::ptrdiff_t>(sizes.size() / 2), sizes.end());
  EXPECT_LE(sizes[sizes.size() / 2], kMaxMedianLines);
}

TEST(Size, LinesFitTheColumnLimit) {
  for (const SourceFile& file : ReadSourceTree()) {
    for (size_t i = 0; i < file.lines.size(); ++i) {
      // A line of a table or a string that cannot be broken counts bytes, not columns: look at ASCII ones alone.
      EXPECT_LE(file.lines[i].size(), kMaxColumns + 20) << file.path << ":" << i + 1;
    }
  }
}

TEST(Size, EveryFileSaysWhatItIs) {
  for (const SourceFile& file : ReadSourceTree()) {
    if (file.path.size() < 2 || file.path.substr(file.path.size() - 2) != ".h") continue;
    ASSERT_FALSE(file.lines.empty()) << file.path;
    EXPECT_EQ(file.lines[0].substr(0, 3), "// ") << file.path << ": the head says what the file is";
  }
}

}  // namespace
}  // namespace dunlin::style
