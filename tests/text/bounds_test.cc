// SPDX-License-Identifier: Apache-2.0
// What a text that is too long costs, and which files a tokenizer may come from.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tests/engine/base/temp_directory.h"
#include "tests/text/golden_files.h"
#include "text/tokenizer.h"

namespace dunlin::text {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::string Repeated(const std::string& unit, size_t bytes) {
  std::string text;
  while (text.size() + unit.size() <= bytes) text += unit;
  return text;
}

// Most resident memory since ResetPeak, in KiB.
int64_t PeakKib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("VmHWM:", 0) == 0) return std::stoll(line.substr(6));
  }
  return 0;
}

bool ResetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5";
  return static_cast<bool>(file.flush());
}

TEST(TextBounds, ATextThatIsTooLongIsRefusedWithTheLimit) {
  for (const Golden& golden : Goldens()) {
    const std::string text = Repeated("hello world, ", 100'000);
    const size_t count = golden.tokenizer->Encode(text)->size();
    EXPECT_EQ(golden.tokenizer->Encode(text, {.max_tokens = count})->size(), count) << golden.style;
    const absl::Status status = golden.tokenizer->Encode(text, {.max_tokens = count - 1}).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange) << golden.style;
    EXPECT_EQ(status.message(), "has more than " + std::to_string(count - 1) + " tokens");
  }
}

TEST(TextBounds, TruncationKeepsTheTokensAroundTheText) {
  const Tokenizer& llama2 = *Goldens()[2].tokenizer;
  const std::string text = Repeated("hello world, ", 100'000);
  const std::vector<engine::TokenId> whole = *llama2.Encode(text);
  bool truncated = false;
  const auto cut = llama2.Encode(text, {.max_tokens = 100, .truncate = true}, &truncated);
  ASSERT_TRUE(cut.ok());
  EXPECT_TRUE(truncated);
  EXPECT_EQ(*cut, std::vector<engine::TokenId>(whole.begin(), whole.begin() + 100));
  EXPECT_TRUE(llama2.Encode("hello", {.max_tokens = 100, .truncate = true}, &truncated).ok());
  EXPECT_FALSE(truncated);
  EXPECT_FALSE(llama2.Encode("hello", {.max_tokens = 0, .truncate = true}).ok()) << "not even the first token fits";
}

// Whole, each of these texts takes hundreds of megabytes: 120 bytes per byte.
TEST(TextBounds, TooLongTextsTakeLittleMemory) {
  std::vector<std::string> texts;
  for (const char* unit : {"a", "word ", "Zeile, und noch eine. ", "1", " ", "漢字，"}) {
    texts.push_back(Repeated(unit, 3'900'000));
  }
  for (const Golden& golden : Goldens()) {
    if (!ResetPeak()) GTEST_SKIP() << "the kernel does not reset the peak of resident memory here";
    const int64_t before = PeakKib();
    for (const std::string& text : texts) {
      EXPECT_FALSE(golden.tokenizer->Encode(text, {.max_tokens = 1022}).ok()) << golden.style;
    }
    EXPECT_LE(PeakKib() - before, 32 << 10) << golden.style;
  }
}

TEST(TextBounds, LongTextsAreReadInPieces) {
  for (const Golden& golden : Goldens()) {
    EXPECT_LT(golden.tokenizer->WidestPiece(Repeated("hello world ", 3'900'000)), 40U << 10) << golden.style;
    EXPECT_EQ(golden.tokenizer->WidestPiece(std::string(100'000, 'a')), 100'000U) << golden.style;
  }
}

// As Directory opens the other files of a model.
TEST(TokenizerFiles, LinksAreFollowedIntoTheCacheAndNowhereElse) {
  const engine::TempDirectory temp;
  fs::create_directories(temp.File("repo/snapshots/1f"));
  fs::create_directory(temp.File("repo/blobs"));
  fs::create_directory(temp.File("model"));
  const std::string golden = GoldenFolder("byte_level_gpt2");
  fs::copy_file(golden + "/tokenizer.json", temp.File("repo/blobs/aa"));
  fs::copy_file(golden + "/tokenizer_config.json", temp.File("repo/blobs/bb"));
  fs::create_symlink("../../blobs/aa", temp.File("repo/snapshots/1f/tokenizer.json"));
  fs::create_symlink("../../blobs/bb", temp.File("repo/snapshots/1f/tokenizer_config.json"));
  EXPECT_TRUE(Tokenizer::Load(temp.File("repo/snapshots/1f"), 0).ok());

  fs::create_symlink("../repo/blobs/aa", temp.File("model/tokenizer.json"));
  absl::Status status = Tokenizer::Load(temp.File("model"), 0).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer.json: a symbolic link that leaves"));
  fs::remove(temp.File("model/tokenizer.json"));
  fs::copy_file(golden + "/tokenizer.json", temp.File("model/tokenizer.json"));
  EXPECT_TRUE(Tokenizer::Load(temp.File("model"), 0).ok()) << "tokenizer_config.json may be missing";
  fs::create_symlink("../repo/blobs/bb", temp.File("model/tokenizer_config.json"));
  status = Tokenizer::Load(temp.File("model"), 0).status();
  EXPECT_THAT(std::string(status.message()), HasSubstr("tokenizer_config.json: a symbolic link that leaves"));
}

TEST(TokenizerFiles, AreRegularAndBounded) {
  const engine::TempDirectory temp;
  EXPECT_EQ(Tokenizer::Load(temp.path(), 0).status().code(), absl::StatusCode::kNotFound);
  fs::create_directory(temp.File("tokenizer.json"));
  EXPECT_THAT(std::string(Tokenizer::Load(temp.path(), 0).status().message()), HasSubstr("not a regular file"));
  fs::remove(temp.File("tokenizer.json"));
  temp.Write("tokenizer.json", "");
  fs::resize_file(temp.File("tokenizer.json"), kMaxTokenizerJsonBytes + 1);
  EXPECT_THAT(std::string(Tokenizer::Load(temp.path(), 0).status().message()),
              HasSubstr("tokenizer.json: has 67108865 bytes; limit is 67108864"));
}

}  // namespace
}  // namespace dunlin::text
