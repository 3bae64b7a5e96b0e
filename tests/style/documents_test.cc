// SPDX-License-Identifier: Apache-2.0
// Documents: the ones that must exist, their lengths, the links between them, and words that no text uses.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <string>
#include <string_view>
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

// A coined word or image, in lower case, and the field's term. whole: not as a part of another word.
struct CoinedWord {
  const char* word;
  bool whole;
  const char* term;
};
constexpr CoinedWord kCoinedWords[] = {
    {"askstream", false, "PrefetchStream"},
    {"asksl2", false, "PrefetchesIntoL2"},
    {"knock", false, "TryAdmit"},
    {"doorrefusal", false, "AdmissionRefusal"},
    {"at the door", true, "before admission"},
    {"giveway", false, "UseBatchScheduling"},
    {"runbriefly", false, "RunInline"},
    {"layerbehindkv", false, "LayerAfterKv"},
    {"slotform", true, "SlotShape"},
    {"ask memory for", false, "prefetch"},
    {"asks memory for", false, "prefetches"},
    {"asks l1 for", false, "prefetches"},
    {"asks l2 for", false, "prefetches"},
    {"asks ahead for", false, "prefetches"},
    {"for lack of room", true, "because it is full"},
    {"heartbeat", false, "watchdog"},
    {"sick_reason", false, "unhealthy_reason"},
    {"queuepart", false, "TenantQueueUsage"},
    {"shareofrest", false, "dynamic threshold"},
    {"pausegate", false, "ArrivalGate"},
    {"own_codes", false, "checkpoint_quantization"},
    {"parkedtotals", false, "SpilledTotals"},
    {"narrowtile", false, "SmallMTile"},
    {"krepeatedrows", false, "kMaxSmallM"},
    {"cached block", true, "cached page set"},
};

std::string Lower(std::string line) {
  for (char& c : line) c = absl::ascii_tolower(static_cast<unsigned char>(c));
  return line;
}

// The term to use in place of a coined word in the line, or null.
const char* TermFor(const std::string& line) {
  const std::string text = Lower(line);
  const auto is_letter = [&text](size_t at) { return at < text.size() && text[at] >= 'a' && text[at] <= 'z'; };
  for (const CoinedWord& coined : kCoinedWords) {
    const std::string_view word = coined.word;
    for (size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) {
      if (!coined.whole || (!is_letter(at + word.size()) && (at == 0 || !is_letter(at - 1)))) return coined.term;
    }
  }
  return nullptr;
}

TEST(Documents, UseTheFieldsTerms) {
  for (const SourceFile& file : SourceTree()) {
    if (file.path == "tests/style/documents_test.cc") continue;
    for (size_t i = 0; i < file.lines.size(); ++i) {
      const char* term = TermFor(file.lines[i]);
      EXPECT_EQ(term, nullptr) << "say \"" << term << "\": " << file.path << ":" << i + 1 << ": " << file.lines[i];
    }
  }
  for (const fs::path& document : Documents()) {
    for (const std::string& line : LinesOf(document)) {
      const char* term = TermFor(line);
      EXPECT_EQ(term, nullptr) << "say \"" << term << "\": " << document << ": " << line;
    }
  }
}

TEST(Documents, CoinedWordsAreFound) {
  EXPECT_STREQ(TermFor("  QueueParts parts_;"), "TenantQueueUsage");
  EXPECT_STREQ(TermFor("// Refused at the door."), "before admission");
  EXPECT_EQ(TermFor("// that the doors open, and a chat"), nullptr);
}

}  // namespace
}  // namespace dunlin::style
