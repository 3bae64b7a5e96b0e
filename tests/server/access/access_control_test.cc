// SPDX-License-Identifier: Apache-2.0
// Who may call what: with keys, without, when they expire, and while they change.
#include "server/access/access_control.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace dunlin::server {
namespace {

constexpr Endpoint kOpen = {"GET /healthz", std::nullopt};
constexpr Endpoint kInfer = {"POST /infer", Permission::kInfer};
constexpr Endpoint kMetrics = {"GET /metrics", Permission::kMetrics};
const absl::Time kNow = absl::FromUnixSeconds(2'000'000'000);

// Each name is its key, too.
std::shared_ptr<const KeySet> Keys(const std::vector<std::string>& names, const std::string& more = "") {
  std::string entries;
  for (const std::string& name : names) {
    absl::StrAppend(&entries, entries.empty() ? "" : ", ", R"({"name": ")", name, R"(", "hashes": [")",
                    DigestText(DigestOf(name)), R"("], "permissions": ["infer"], "models": ["*"])", more, "}");
  }
  auto keys = KeySet::Parse(absl::StrCat(R"({"keys": [)", entries, "]}"), "test");
  EXPECT_TRUE(keys.ok()) << keys.status();
  return *std::move(keys);
}

TEST(AccessControl, WithoutKeysEverybodyIsAnonymousAndMayCall) {
  const AccessControl access;
  EXPECT_FALSE(access.enabled());
  const AccessAnswer answer = access.Authorize("whatever", kInfer, kNow);
  EXPECT_EQ(answer.refusal, std::nullopt);
  EXPECT_TRUE(answer.principal.anonymous());
  EXPECT_TRUE(answer.principal.MayUse("m"));
}

TEST(AccessControl, WithoutKeysNobodyIsAnAdministratorWhereStrangersCall) {
  constexpr Endpoint kAdmin = {"POST /unload", Permission::kAdmin};
  AccessControl access;
  EXPECT_EQ(access.Authorize("", kAdmin, kNow).refusal, std::nullopt);
  access.ForbidAdminWithoutKeys();
  for (const char* presented : {"", "whatever"}) {
    EXPECT_EQ(access.Authorize(presented, kAdmin, kNow).refusal, AccessRefusal::kPermissionDenied);
    for (const Endpoint& other : {kOpen, kInfer, kMetrics}) {
      EXPECT_EQ(access.Authorize(presented, other, kNow).refusal, std::nullopt) << other.name;
    }
  }
  access.Use(Keys({"a"}));
  EXPECT_EQ(access.Authorize("", kAdmin, kNow).refusal, AccessRefusal::kUnauthenticated);
}

TEST(AccessControl, WithKeysNobodyMayCallWithoutOne) {
  AccessControl access;
  access.Use(Keys({"a", "b"}));
  for (const std::string& wrong :
       {std::string(), std::string("c"), std::string("A"), std::string("a "), std::string(kMaxKeyBytes + 1, 'a')}) {
    EXPECT_EQ(access.Authorize(wrong, kInfer, kNow).refusal, AccessRefusal::kUnauthenticated) << wrong;
    const AccessAnswer open = access.Authorize(wrong, kOpen, kNow);
    EXPECT_EQ(open.refusal, std::nullopt);
    EXPECT_TRUE(open.principal.anonymous());
  }
  const AccessAnswer answer = access.Authorize("b", kInfer, kNow);
  EXPECT_EQ(answer.refusal, std::nullopt);
  EXPECT_EQ(answer.principal.name, "b");
  EXPECT_EQ(access.Authorize("b", kMetrics, kNow).refusal, AccessRefusal::kPermissionDenied);
  EXPECT_EQ(access.Authorize("b", kMetrics, kNow).principal.name, "b") << "for the audit log";
  EXPECT_EQ(access.Authorize("b", kOpen, kNow).principal.name, "b");
}

TEST(AccessControl, AnExpiredKeyIsAsIfItWereNone) {
  AccessControl access;
  access.Use(Keys({"a"}, absl::StrCat(R"(, "not_after": ")",
                                      absl::FormatTime(absl::RFC3339_sec, kNow, absl::UTCTimeZone()), "\"")));
  EXPECT_EQ(access.Authorize("a", kInfer, kNow).refusal, std::nullopt);
  EXPECT_EQ(access.Authorize("a", kInfer, kNow + absl::Nanoseconds(1)).refusal, AccessRefusal::kUnauthenticated);
  EXPECT_TRUE(access.Authorize("a", kOpen, kNow + absl::Seconds(1)).principal.anonymous());
}

TEST(AccessControl, AWithdrawnKeyIsRefusedAndItsCallKeepsItsRecord) {
  AccessControl access;
  access.Use(Keys({"a", "b"}));
  const Principal caller = access.Authorize("a", kInfer, kNow).principal;
  access.Use(Keys({"b"}));
  EXPECT_EQ(access.Authorize("a", kInfer, kNow).refusal, AccessRefusal::kUnauthenticated);
  EXPECT_EQ(caller.key->name, "a");
  access.Use(Keys({}));
  EXPECT_EQ(access.Authorize("b", kInfer, kNow).refusal, AccessRefusal::kUnauthenticated) << "no keys allow nobody";
}

class CountingObserver : public AccessObserver {
 public:
  void OnDenied(const AccessDenial& denial) override {
    last = absl::StrCat(std::string(denial.key), " ", std::string(denial.reason));
  }
  std::string last;
};

TEST(AccessControl, CountsAndReportsRefusals) {
  CountingObserver observer;
  AccessControl access(&observer);
  access.Report(AccessRefusal::kUnauthenticated, {kUnknownKey, "GET /", "peer", "no valid key"});
  EXPECT_EQ(observer.last, "unknown no valid key");
  access.Report(AccessRefusal::kPermissionDenied, {"a", "GET /", "peer", "model not allowed"});
  access.Report(AccessRefusal::kPermissionDenied, {"a", "GET /", "peer", "model not allowed"});
  const AccessStats stats = access.stats();
  EXPECT_EQ(stats.unauthenticated, 1U);
  EXPECT_EQ(stats.denied, 2U);
  EXPECT_FALSE(stats.enabled);
  EXPECT_TRUE(stats.file_ok);
}

// A call sees the keys of before or of after, never none and never a mixture.
TEST(AccessControl, KeysMayChangeWhileCallsComeIn) {
  AccessControl access;
  access.Use(Keys({"both", "first"}));
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int i = 0; i < 3; ++i) {
    callers.emplace_back([&access, &stop, &wrong] {
      while (!stop) {
        const AccessAnswer both = access.Authorize("both", kInfer, kNow);
        if (both.refusal.has_value() || both.principal.key->name != "both") ++wrong;
        const AccessAnswer first = access.Authorize("first", kInfer, kNow);
        if (!first.refusal.has_value() && first.principal.key->name != "first") ++wrong;
        if (access.stats().num_keys != 2) ++wrong;
      }
    });
  }
  const auto one = Keys({"both", "first"});
  const auto other = Keys({"second", "both"});
  for (int i = 0; i < 2000; ++i) access.Use(i % 2 == 0 ? other : one);
  stop = true;
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(BearerKey, IsWhatFollowsTheScheme) {
  EXPECT_EQ(BearerKey("Bearer abc"), "abc");
  EXPECT_EQ(BearerKey("bearer  abc "), "abc");
  for (const char* none : {"", "Bearer", "Bearer ", "Basic abc", "abc", "Bearerabc"})
    EXPECT_EQ(BearerKey(none), "") << none;
}

TEST(EndpointTable, FindsARowByItsWholeName) {
  const EndpointTable table({{"POST /b", Permission::kAdmin}, {"GET /a", kOpenToAll}, {"GET /aa", Permission::kInfer}});
  EXPECT_EQ(table.Find("POST /b")->needed, Permission::kAdmin);
  EXPECT_EQ(table.Find("GET /a")->needed, std::nullopt);
  EXPECT_EQ(table.Find("GET /aa")->needed, Permission::kInfer);
  for (const char* none : {"", "GET /", "GET /aaa", "POST /a", "POST /c"}) EXPECT_EQ(table.Find(none), nullptr) << none;
  EXPECT_EQ(EndpointTable().Find("GET /a"), nullptr);
}

}  // namespace
}  // namespace dunlin::server
