// SPDX-License-Identifier: Apache-2.0
// The file of keys: read when it changes, never half, and changed by `dunlin key new` at once.
#include "server/access/key_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "server/access/key_entry.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;

constexpr Endpoint kInferEndpoint = {"POST /infer", Permission::kInfer};

Json EntryOf(const std::string& name, const std::string& key) {
  return {{"name", name}, {"hashes", {DigestText(DigestOf(key))}}};
}

class KeyFileTest : public testing::Test {
 protected:
  KeyFileTest() : folder_(testing::TempDir() + "key_file_" + std::to_string(getpid())) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    path_ = folder_ + "/keys.json";
  }
  ~KeyFileTest() override { std::filesystem::remove_all(folder_); }

  // As an editor does: another file in its place.
  void Write(const std::string& text) const {
    std::ofstream(path_ + ".tmp") << text;
    std::filesystem::rename(path_ + ".tmp", path_);
  }
  std::string Text() const {
    std::ifstream file(path_);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  bool Allows(const std::string& key) const {
    return !access_.Authorize(key, kInferEndpoint, absl::FromUnixSeconds(0)).refusal.has_value();
  }

  std::string folder_;
  std::string path_;
  AccessControl access_;
};

TEST_F(KeyFileTest, IsReadAgainWhenItChanges) {
  ASSERT_TRUE(AddEntry(path_, EntryOf("a", "key-a")).ok());
  KeyFile file(path_, &access_);
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  EXPECT_TRUE(Allows("key-a"));
  EXPECT_FALSE(Allows("key-b"));
  EXPECT_EQ(file.ReadIfChanged(), std::nullopt) << "nothing has changed";
  ASSERT_TRUE(AddEntry(path_, EntryOf("b", "key-b")).ok());
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  EXPECT_TRUE(Allows("key-b"));
  Write(*WithEntry("", EntryOf("b", "key-b"), "test"));
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  EXPECT_FALSE(Allows("key-a")) << "removed is withdrawn";
}

TEST_F(KeyFileTest, AChangeInTheSameTickIsSeen) {
  const std::string one = *WithEntry("", EntryOf("a", "key-a"), "test");
  const std::string two = *WithEntry("", EntryOf("a", "key-b"), "test");
  ASSERT_EQ(one.size(), two.size());
  std::ofstream(path_) << one;
  KeyFile file(path_, &access_);
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  std::ofstream(path_) << two;  // the same inode and size, and maybe the same time
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  EXPECT_TRUE(Allows("key-b"));
}

TEST_F(KeyFileTest, ABrokenFileKeepsTheKeysOfBefore) {
  ASSERT_TRUE(AddEntry(path_, EntryOf("a", "key-a")).ok());
  const std::string good = Text();
  KeyFile file(path_, &access_);
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  Write("{\"keys\": [");
  EXPECT_THAT(std::string(file.ReadIfChanged().value().message()), HasSubstr(path_));
  EXPECT_FALSE(access_.stats().file_ok);
  EXPECT_TRUE(Allows("key-a"));
  std::filesystem::remove(path_);
  EXPECT_FALSE(file.ReadIfChanged()->ok());
  EXPECT_EQ(file.ReadIfChanged(), std::nullopt) << "said once";
  EXPECT_TRUE(Allows("key-a"));
  Write(good);
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  EXPECT_TRUE(access_.stats().file_ok);
}

TEST_F(KeyFileTest, AFileThatIsMissingAtFirstIsAnError) {
  KeyFile file(path_, &access_);
  EXPECT_THAT(file.ReadIfChanged()->code(), absl::StatusCode::kNotFound);
  EXPECT_FALSE(access_.enabled());
}

TEST_F(KeyFileTest, AnEntryIsAddedAtOnceAndNothingElseChanges) {
  ASSERT_TRUE(AddEntry(path_, EntryOf("a", "key-a")).ok());
  struct stat found {};
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0007, 0U) << "not for everybody";
  ASSERT_EQ(chmod(path_.c_str(), 0604), 0);
  Json entry = EntryOf("b", "key-b");
  entry["models"] = {"demo"};
  ASSERT_TRUE(AddEntry(path_, entry).ok());
  ASSERT_EQ(stat(path_.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0604U);
  const Json document = Json::parse(Text());
  ASSERT_EQ(document["keys"].size(), 2U);
  EXPECT_EQ(document["keys"][0]["permissions"], Json({"infer"}));
  EXPECT_EQ(document["keys"][0]["models"], Json({"*"}));
  EXPECT_EQ(document["keys"][1]["models"], Json({"demo"}));
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(KeyFileTest, WhatIsNotShownIsNotAdded) {
  ASSERT_TRUE(AddEntry(path_, EntryOf("a", "key-a")).ok());
  const std::string before = Text();
  const auto refuse = [this, &before] {
    EXPECT_EQ(Text(), before) << "not before it is shown";
    return absl::UnavailableError("no terminal");
  };
  EXPECT_EQ(AddEntry(path_, EntryOf("b", "key-b"), refuse), absl::UnavailableError("no terminal"));
  EXPECT_EQ(Text(), before);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
  bool shown = false;
  const auto show = [&shown] {
    shown = true;
    return absl::OkStatus();
  };
  EXPECT_FALSE(AddEntry(path_, EntryOf("not a name", "x"), show).ok());
  EXPECT_FALSE(shown) << "a key that would not be in force";
}

TEST_F(KeyFileTest, ASecondKeyOfANameJoinsTheFirst) {
  ASSERT_TRUE(AddEntry(path_, EntryOf("a", "old")).ok());
  ASSERT_TRUE(AddEntry(path_, EntryOf("a", "new")).ok());
  KeyFile file(path_, &access_);
  EXPECT_EQ(file.ReadIfChanged(), absl::OkStatus());
  EXPECT_TRUE(Allows("old"));
  EXPECT_TRUE(Allows("new"));
  Json more = EntryOf("a", "newer");
  more["permissions"] = {"admin"};
  EXPECT_THAT(std::string(AddEntry(path_, more).message()), HasSubstr("which gets another key"));
  const std::string before = Text();
  EXPECT_FALSE(AddEntry(path_, EntryOf("not a name", "x")).ok());
  EXPECT_EQ(Text(), before);
  EXPECT_FALSE(std::filesystem::exists(path_ + ".new"));
}

TEST_F(KeyFileTest, OneCommandAtATimeChangesIt) {
  std::ofstream(path_ + ".new") << "";
  EXPECT_EQ(AddEntry(path_, EntryOf("a", "key")).code(), absl::StatusCode::kAborted);
  EXPECT_TRUE(std::filesystem::exists(path_ + ".new")) << "it is the other's";
  EXPECT_EQ(AddEntry(folder_ + "/none/keys.json", EntryOf("a", "key")).code(), absl::StatusCode::kUnavailable);
}

}  // namespace
}  // namespace dunlin::server
