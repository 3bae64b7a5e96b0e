// SPDX-License-Identifier: Apache-2.0
// What a key file may say, how it is refused, and how a key is found in it.
#include "server/access/key_set.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/request/options.h"

namespace dunlin::server {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

const std::string kKey = "dunlin_one";
const std::string kHash = DigestText(DigestOf(kKey));

std::string Entry(const std::string& more) {
  return absl::StrCat(R"({"name": "team-a", "hashes": [")", kHash, R"("], "permissions": ["infer"], "models": ["*"])",
                      more.empty() ? "" : ", ", more, "}");
}

std::string File(const std::string& entries) {
  return absl::StrCat(R"({"keys": [)", entries, "]}");
}

std::string ErrorOf(const std::string& text) {
  const auto keys = KeySet::Parse(text, "f");
  EXPECT_TRUE(absl::IsInvalidArgument(keys.status())) << text << ": " << keys.status();
  EXPECT_THAT(std::string(keys.status().message()), Not(HasSubstr(kHash.substr(7))));
  return std::string(keys.status().message());
}

std::shared_ptr<const KeyRecord> Read(const std::string& more) {
  const auto keys = KeySet::Parse(File(Entry(more)), "f");
  EXPECT_TRUE(keys.ok()) << keys.status();
  return (*keys)->Find(DigestOf(kKey));
}

TEST(KeyDigest, IsTheSha256OfTheKey) {
  EXPECT_EQ(DigestText(DigestOf("abc")), "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")
      << "FIPS 180-4's example";
  EXPECT_EQ(ParseDigest(DigestText(DigestOf("abc"))), DigestOf("abc"));
  EXPECT_EQ(ParseDigest("sha256:BA7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"), std::nullopt);
  EXPECT_EQ(ParseDigest("sha256:ba"), std::nullopt);
  EXPECT_EQ(ParseDigest(""), std::nullopt);
}

TEST(KeyDigest, DrawnKeysDifferAndHave256Bits) {
  std::set<std::string> keys;
  for (int i = 0; i < 100; ++i) keys.insert(DrawKey());
  EXPECT_EQ(keys.size(), 100U);
  for (const std::string& key : keys) {
    EXPECT_EQ(key.substr(0, 7), "dunlin_");
    EXPECT_EQ(key.size(), 7U + 43U) << "6 bits a character";
  }
}

TEST(KeyDigest, SaltsOfDifferentNamesAreNeverEqual) {
  EXPECT_NE(SaltOf("a", "b"), SaltOf("ab", ""));
  EXPECT_NE(SaltOf("a", ""), SaltOf("b", ""));
  EXPECT_NE(SaltOf("a", "x"), SaltOf("a", "y"));
  EXPECT_EQ(SaltOf("a", "x"), SaltOf("a", "x"));
  EXPECT_EQ(SaltOf("a", std::string(128, 'x')).size(), 32U);
}

TEST(KeySet, ReadsWhatAnEntrySays) {
  const auto all = Read("");
  ASSERT_NE(all, nullptr);
  EXPECT_TRUE(all->Has(Permission::kInfer));
  EXPECT_FALSE(all->Has(Permission::kMetrics));
  EXPECT_TRUE(all->MayUse("any model"));
  EXPECT_TRUE(all->attention_backends.all());
  EXPECT_TRUE(all->precisions.all());
  EXPECT_EQ(all->max_priority, 0);
  EXPECT_FALSE(all->quota.any());
  EXPECT_EQ(all->not_after, absl::InfiniteFuture());

  const auto some = Read(
      R"("max_priority": -3, "attention_backends": ["math"], "precisions": ["bf16", "fp8"], "not_after": "2030-01-31T01:00:00+01:00")");
  ASSERT_NE(some, nullptr);
  EXPECT_EQ(some->max_priority, -3);
  EXPECT_TRUE(some->MayUse(kernels::AttentionBackend::kMath));
  EXPECT_FALSE(some->MayUse(kernels::AttentionBackend::kFlash));
  EXPECT_TRUE(some->MayUse(kernels::Precision::kFp8));
  EXPECT_FALSE(some->MayUse(kernels::Precision::kFp32));
  EXPECT_EQ(some->not_after, absl::FromCivil(absl::CivilDay(2030, 1, 31), absl::UTCTimeZone()));
}

TEST(KeySet, TheExampleIsValid) {
  std::ifstream file(DUNLIN_SOURCE_DIR "/configs/keys.example.json");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto keys = KeySet::Parse(text, "example");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->size(), 3U);
}

TEST(KeySet, ReadsQuotas) {
  const auto limited = Read(R"("requests_per_minute": 60, "tokens_per_minute": 0, "max_concurrent": 4)");
  ASSERT_NE(limited, nullptr);
  EXPECT_EQ(limited->quota.requests_per_minute, 60);
  EXPECT_EQ(limited->quota.tokens_per_minute, 0) << "no token, not no limit";
  EXPECT_EQ(limited->quota.concurrent_streams, 4);
}

TEST(KeySet, AModelThatIsNotNamedMayNotBeUsed) {
  const auto keys = KeySet::Parse(absl::StrCat(R"({"keys": [{"name": "a", "hashes": [")", kHash,
                                               R"("], "permissions": ["infer"], "models": ["demo"]}]})"),
                                  "f");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_TRUE((*keys)->Find(DigestOf(kKey))->MayUse("demo"));
  EXPECT_FALSE((*keys)->Find(DigestOf(kKey))->MayUse("demo2"));
}

TEST(KeySet, FindsEachKeyOfEachEntry) {
  std::string entries;
  for (int i = 0; i < 50; ++i) {
    absl::StrAppend(&entries, i == 0 ? "" : ", ", R"({"name": "n)", i, R"(", "hashes": [")",
                    DigestText(DigestOf(absl::StrCat("old", i))), R"(", ")",
                    DigestText(DigestOf(absl::StrCat("new", i))), R"("], "permissions": ["admin"], "models": ["*"]})");
  }
  const auto keys = KeySet::Parse(File(entries), "f");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->size(), 50U);
  for (int i = 0; i < 50; ++i) {
    for (const char* which : {"old", "new"}) {
      const auto record = (*keys)->Find(DigestOf(absl::StrCat(which, i)));
      ASSERT_NE(record, nullptr);
      EXPECT_EQ(record->name, absl::StrCat("n", i));
    }
  }
  EXPECT_EQ((*keys)->Find(DigestOf("old50")), nullptr);
}

TEST(KeySet, AFileWithoutKeysIsOneThatAllowsNobody) {
  const auto keys = KeySet::Parse(R"({"keys": []})", "f");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ((*keys)->Find(DigestOf("")), nullptr);
}

struct BadFile {
  std::string text;
  const char* message;
};

TEST(KeySet, NamesWhatIsWrong) {
  const std::string other = DigestText(DigestOf("other"));
  const BadFile bad_files[] = {
      {"", "f"},
      {"{", "f"},
      {R"({"keys": {}})", "f: keys is not a list"},
      {R"({})", "f: keys is not a list"},
      {R"({"keys": [], "more": 1})", "f: unknown field \"more\""},
      {R"({"keys": [], "keys": []})", "keys"},
      {File("7"), "f: keys[0]: not an object"},
      {File(Entry(R"("priority": 1)")), "f: keys[0]: unknown field \"priority\""},
      {File(Entry(R"("max_priority": 101)")), "f: keys[0]: max_priority is 101; limit is [-100, 100]"},
      {File(Entry(R"("max_priority": "x")")), "f: keys[0]: max_priority"},
      {File(Entry(R"("tokens_per_minute": -1)")), "f: keys[0]: tokens_per_minute is -1; limit is [0, 1099511627776]"},
      {File(Entry(R"("attention_backends": [])")), "attention_backends has no entry; limit is [1, 3]"},
      {File(Entry(R"("attention_backends": ["fast"])")),
       "attention_backends has \"fast\"; limit is math|flash|efficient"},
      {File(Entry(R"("precisions": ["int2"])")), "precisions has \"int2\"; limit is fp32|bf16|fp16|fp8|int8|int4"},
      {File(Entry(R"("not_after": "tomorrow")")), "not_after is \"tomorrow\"; limit is a time as 2030-01-31T00:00:00Z"},
      {File(Entry("") + ", " + Entry("")), "f: keys[1].name is \"team-a\"; limit is one entry a name"},
      {File(Entry("") + ", " +
            absl::StrCat(R"({"name": "b", "hashes": [")", kHash, R"("], "permissions": ["infer"], "models": ["*"]})")),
       "f: keys[1].hashes has an entry that is in the file twice"},
      {File(R"({"name": "a", "hashes": ["x"], "permissions": ["infer"], "models": ["*"]})"),
       "hashes has an entry that is not sha256: and 64 lower-case hexadecimal digits"},
      {File(R"({"name": "a", "permissions": ["infer"], "models": ["*"]})"), "hashes has no entry; limit is [1, 4]"},
      {File(
           absl::StrCat(R"({"name": "a b", "hashes": [")", other, R"("], "permissions": ["infer"], "models": ["*"]})")),
       "name is not 1 to 64 letters"},
      {File(absl::StrCat(R"({"name": "unknown", "hashes": [")", other,
                         R"("], "permissions": ["infer"], "models": ["*"]})")),
       "and not \"unknown\""},
      {File(absl::StrCat(R"({"name": "a", "hashes": [")", other, R"("], "models": ["*"]})")),
       "permissions has no entry"},
      {File(absl::StrCat(R"({"name": "a", "hashes": [")", other, R"("], "permissions": ["infer"]})")),
       "models has no entry"},
      {File(absl::StrCat(R"({"name": "a", "hashes": [")", other, R"("], "permissions": ["root"], "models": ["*"]})")),
       "permissions has \"root\"; limit is infer|metrics|admin"},
      {File(absl::StrCat(R"({"name": "a", "hashes": [")", other,
                         R"("], "permissions": ["infer"], "models": ["*", "m"]})")),
       "models has \"*\" and others"},
  };
  for (const BadFile& bad : bad_files) EXPECT_THAT(ErrorOf(bad.text), HasSubstr(bad.message)) << bad.text;
}

}  // namespace
}  // namespace dunlin::server
