// SPDX-License-Identifier: Apache-2.0
// Documents: the ones that must exist, their lengths, the links between them, and words that no text uses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "tests/style/source_tree.h"

namespace dunlin::style {
namespace {

namespace fs = std::filesystem;

const fs::path kRoot = DUNLIN_SOURCE_DIR;

std::vector<std::string> LinesOf(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

// Folders of the second level whose README says what lives there.
std::vector<fs::path> Rooms() {
  std::vector<fs::path> rooms = {"tests/bench", "server/fronts/dunlin_v1", "server/fronts/openai",
                                 "server/transport/grpc", "server/transport/http"};
  for (const char* layer : {"kernels", "engine", "text", "server", "tools"}) {
    for (const auto& entry : fs::directory_iterator(kRoot / layer)) {
      if (entry.is_directory()) rooms.push_back(fs::relative(entry.path(), kRoot));
    }
  }
  return rooms;
}

std::vector<fs::path> Documents() {
  std::vector<fs::path> documents;
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    if (entry.path().extension() == ".md") documents.push_back(entry.path());
  }
  for (const char* folder : {"docs", "server", "engine", "text", "kernels", "tools", "tests", "proto", "deploy"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".md" && entry.path().string().find("/target/") == std::string::npos) {
        documents.push_back(entry.path());
      }
    }
  }
  return documents;
}

TEST(Documents, EveryRoomHasAShortReadme) {
  for (const fs::path& room : Rooms()) {
    const fs::path readme = kRoot / room / "README.md";
    ASSERT_TRUE(fs::exists(readme)) << room;
    const bool device = room == "kernels/cpu" || room == "kernels/cuda";
    EXPECT_LE(LinesOf(readme).size(), device ? 60U : 40U) << readme;
  }
}

TEST(Documents, StayWithinTheirLengths) {
  const std::vector<std::pair<const char*, size_t>> limits = {{"README.md", 150},      {"CONTRIBUTING.md", 120},
                                                              {"SECURITY.md", 80},     {"docs/benchmarks.md", 150},
                                                              {"docs/openai.md", 200}, {"docs/architecture.md", 400}};
  for (const auto& [path, limit] : limits) {
    ASSERT_TRUE(fs::exists(kRoot / path)) << path;
    EXPECT_LE(LinesOf(kRoot / path).size(), limit) << path;
  }
  EXPECT_TRUE(fs::exists(kRoot / "LICENSE"));
  EXPECT_TRUE(fs::exists(kRoot / "CHANGELOG.md"));
}

TEST(Documents, DecisionsHaveFiveLinesEach) {
  size_t length = 0;
  size_t entries = 0;
  std::string first;
  for (const std::string& line : LinesOf(kRoot / "docs/decisions.md")) {
    if (line.rfind("**", 0) == 0) {
      first = line;
      length = 0;
      ++entries;
    }
    if (line.empty()) first.clear();
    if (first.empty()) continue;
    EXPECT_LE(++length, 5U) << first;
  }
  EXPECT_GT(entries, 50U);
}

// Each entry once, under the heading of its room.
TEST(Documents, DecisionsStandOnceUnderARoom) {
  const std::regex title(R"(^\*\*(.*?)(\*\*|$))");
  std::set<std::string> titles;
  std::string heading;
  for (const std::string& line : LinesOf(kRoot / "docs/decisions.md")) {
    if (line.rfind("## ", 0) == 0) {
      heading = line;
      EXPECT_TRUE(titles.insert(line).second) << line << " stands twice";
    }
    std::smatch match;
    if (!std::regex_search(line, match, title)) continue;
    EXPECT_NE(heading, "") << line << " stands under no heading";
    EXPECT_TRUE(titles.insert(match[1]).second) << line << " stands twice";
  }
}

TEST(Documents, RelativeLinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#:]+)(#[^)]*)?\))");
  for (const fs::path& document : Documents()) {
    for (const std::string& line : LinesOf(document)) {
      for (std::sregex_iterator it(line.begin(), line.end(), link); it != std::sregex_iterator(); ++it) {
        EXPECT_TRUE(fs::exists(document.parent_path() / (*it)[1].str())) << document << ": " << (*it)[1];
      }
    }
  }
}

// In lower case: ten times as fast as a regular expression that ignores case.
std::string Lower(std::string line) {
  for (char& c : line) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return line;
}

// Coined words and images for things that have a name in the field.
TEST(Documents, UseTheFieldsTerms) {
  const std::regex coined(R"(askstream|asksl2|knock|doorrefusal|giveway|runbriefly|layerbehindkv|\bslotform\b|)"
                          R"(\basks? (memory|l1|l2|ahead) for|\bfor lack of room\b|\bat the door\b)");
  for (const SourceFile& file : SourceTree()) {
    if (file.path == "tests/style/documents_test.cc") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      EXPECT_FALSE(std::regex_search(Lower(file.lines[i]), coined))
          << file.path << ":" << i + 1 << ": " << file.lines[i];
    }
  }
  for (const fs::path& document : Documents()) {
    for (const std::string& line : LinesOf(document)) {
      EXPECT_FALSE(std::regex_search(Lower(line), coined)) << document << ": " << line;
    }
  }
}

}  // namespace
}  // namespace dunlin::style
