// SPDX-License-Identifier: Apache-2.0
#include "server/access/quota.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace dunlin::server {
namespace {

constexpr int64_t kQuotaSecond = 1'000'000'000;
constexpr int64_t kQuotaMinute = 60 * kQuotaSecond;

Quota::Call CallOf(std::variant<Quota::Call, QuotaRefusal> begun) {
  return std::get<Quota::Call>(std::move(begun));
}
QuotaRefusal RefusalOf(const std::variant<Quota::Call, QuotaRefusal>& begun) {
  return std::get<QuotaRefusal>(begun);
}

TEST(Quota, WithoutLimitsAdmitsEverythingAndReportsNothing) {
  Quota quota({});
  std::vector<Quota::Call> calls;
  calls.reserve(1000);
  for (int i = 0; i < 1000; ++i) calls.push_back(CallOf(quota.TryBegin(0, 1'000'000'000)));
  const QuotaLevels levels = quota.Levels(0);
  EXPECT_FALSE(levels.requests.has_value() || levels.tokens.has_value() || levels.streams.has_value());
}

TEST(Quota, OfZeroRefusesEverythingAndPromisesNoTime) {
  for (const QuotaLimits& limits : {QuotaLimits{.requests_per_minute = 0}, QuotaLimits{.tokens_per_minute = 0},
                                    QuotaLimits{.concurrent_streams = 0}, QuotaLimits{.requests_per_minute = -5}}) {
    Quota quota(limits);
    const QuotaRefusal refusal = RefusalOf(quota.TryBegin(kQuotaMinute));
    EXPECT_EQ(refusal.limit, 0);
    EXPECT_FALSE(refusal.retry_after.has_value());
  }
}

TEST(Quota, BoundsRequestsAMinute) {
  Quota quota({.requests_per_minute = 2});
  CallOf(quota.TryBegin(0));
  EXPECT_EQ(quota.Levels(0).requests->remaining, 1);
  CallOf(quota.TryBegin(0));
  const QuotaRefusal refusal = RefusalOf(quota.TryBegin(0));
  EXPECT_EQ(refusal.kind, QuotaKind::kRequests);
  EXPECT_EQ(refusal.limit, 2);
  EXPECT_EQ(refusal.retry_after, 30 * kQuotaSecond);
  EXPECT_EQ(quota.Levels(0).requests->reset, kQuotaMinute);
  CallOf(quota.TryBegin(30 * kQuotaSecond));
}

TEST(Quota, BoundsStreamsAtOnce) {
  Quota quota({.concurrent_streams = 2});
  Quota::Call first = CallOf(quota.TryBegin(0));
  Quota::Call second = CallOf(quota.TryBegin(0));
  EXPECT_EQ(RefusalOf(quota.TryBegin(0)).kind, QuotaKind::kStreams);
  first = std::move(second);
  EXPECT_EQ(quota.Levels(0).streams->remaining, 1) << "an overwritten call has ended";
  first = Quota::Call();
  EXPECT_EQ(quota.Levels(0).streams->remaining, 2);
}

TEST(Quota, ARefusalTakesNothing) {
  Quota quota({.requests_per_minute = 10, .tokens_per_minute = 100, .concurrent_streams = 10});
  Quota::Call call = CallOf(quota.TryBegin(0, 60));
  Quota::Call other = CallOf(quota.TryBegin(0, 30));
  RefusalOf(quota.TryBegin(0, 11));
  EXPECT_TRUE(call.Reserve(71, 0).has_value());
  const QuotaLevels levels = quota.Levels(0);
  EXPECT_EQ(levels.requests->remaining, 8);
  EXPECT_EQ(levels.tokens->remaining, 10);
  EXPECT_EQ(levels.streams->remaining, 8);
}

TEST(Quota, GivesBackWhatWasReservedAndNotUsed) {
  Quota quota({.tokens_per_minute = 600});
  Quota::Call call = CallOf(quota.TryBegin(0));
  EXPECT_FALSE(call.Reserve(500, 0).has_value());
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 100);
  EXPECT_FALSE(call.Reserve(600, 0).has_value()) << "what it has reserved before is its own";
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 0);
  call.Settle(200, 0);
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 400);
  EXPECT_EQ(quota.Levels(0).tokens->reset, 20 * kQuotaSecond);
  call.Settle(0, 0);
  EXPECT_FALSE(call.Reserve(50, 0).has_value());
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 400) << "the first settlement counts";
}

TEST(Quota, ACallThatIsNotSettledHasUsedWhatItReserved) {
  Quota quota({.tokens_per_minute = 600});
  CallOf(quota.TryBegin(0, 500));
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 100);
}

TEST(Quota, MoreThanWasReservedIsADebtThatLaterCallsWaitFor) {
  Quota quota({.tokens_per_minute = 60});
  Quota::Call call = CallOf(quota.TryBegin(0, 10));
  call.Settle(90, 0);
  const QuotaRefusal refusal = RefusalOf(quota.TryBegin(0));
  EXPECT_EQ(refusal.kind, QuotaKind::kTokens);
  EXPECT_EQ(refusal.retry_after, 30 * kQuotaSecond);
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 0);
  EXPECT_EQ(quota.Levels(0).tokens->reset, 90 * kQuotaSecond);
  CallOf(quota.TryBegin(30 * kQuotaSecond));
}

TEST(Quota, OfTwoLimitsTheLongerWaitIsNamed) {
  Quota quota({.requests_per_minute = 1, .tokens_per_minute = 60});
  CallOf(quota.TryBegin(0, 90));
  EXPECT_EQ(RefusalOf(quota.TryBegin(0)).kind, QuotaKind::kRequests);
  const QuotaRefusal refusal = RefusalOf(quota.TryBegin(0, 60));
  EXPECT_EQ(refusal.kind, QuotaKind::kTokens);
  EXPECT_EQ(refusal.retry_after, 90 * kQuotaSecond);
  CallOf(quota.TryBegin(90 * kQuotaSecond, 60));
}

// Whatever is reserved and settled, and in whatever order, no more is used in the long run than the rate allows.
TEST(Quota, TokensUsedStayWithinTheRate) {
  constexpr int64_t kRate = 6000;
  Quota quota({.tokens_per_minute = kRate});
  struct Running {
    Quota::Call call;
    int64_t ends;
    int64_t uses;
  };
  std::vector<Running> running;
  int64_t used = 0;
  int64_t most_over = 0;  // of one call, beyond what it reserved
  uint64_t dice = 1;
  const auto below = [&dice](int64_t n) {
    dice = dice * 6364136223846793005U + 1442695040888963407U;
    return static_cast<int64_t>((dice >> 33) % static_cast<uint64_t>(n));
  };
  constexpr int64_t kMinutes = 20;
  for (int64_t now = 0; now < kMinutes * kQuotaMinute; now += kQuotaSecond / 10) {
    std::erase_if(running, [&](Running& one) {
      if (one.ends > now) return false;
      one.call.Settle(one.uses, now);
      used += one.uses;
      return true;
    });
    const int64_t reserved = below(400);
    std::variant<Quota::Call, QuotaRefusal> begun = quota.TryBegin(now, reserved);
    if (!std::holds_alternative<Quota::Call>(begun)) continue;
    const int64_t uses = below(500);
    most_over = std::max(most_over, uses - reserved);
    running.push_back({CallOf(std::move(begun)), now + below(5) * kQuotaSecond, uses});
  }
  EXPECT_LE(used, (kMinutes + 1) * kRate + 60 * most_over);
  EXPECT_GE(used, kMinutes * kRate * 9 / 10);
}

TEST(Quotas, AKeyKeepsWhatItHasUsedWhenTheFileIsReadAgain) {
  Quotas quotas;
  std::shared_ptr<Quota> first = quotas.Of("team-a", {.tokens_per_minute = 100}, 0);
  Quota::Call call = CallOf(first->TryBegin(0, 80));
  std::shared_ptr<Quota> second = quotas.Of("team-a", {.tokens_per_minute = 200}, 0);
  EXPECT_EQ(first, second);
  first.reset();
  EXPECT_EQ(second->Levels(0).tokens->remaining, 120);
  EXPECT_EQ(quotas.Of("team-b", {.tokens_per_minute = 100}, 0)->Levels(0).tokens->remaining, 100);
  second.reset();
  call.Settle(10, 0);  // outlives the quota
  EXPECT_EQ(quotas.Of("team-a", {.tokens_per_minute = 200}, 0)->Levels(0).tokens->remaining, 200)
      << "nobody held it any more";
}

TEST(Quotas, KeysThatAreGoneDoNotPileUp) {
  Quotas quotas;
  for (int i = 0; i < 1000; ++i) quotas.Of("key-" + std::to_string(i), {}, 0);
  EXPECT_LE(quotas.size(), 4U);
}

TEST(Quota, ALimitThatComesOrGoesAppliesAtOnce) {
  Quota quota({.requests_per_minute = 1});
  Quota::Call call = CallOf(quota.TryBegin(0, 500));
  quota.SetLimits({.tokens_per_minute = 100, .concurrent_streams = 1}, 0);
  EXPECT_EQ(RefusalOf(quota.TryBegin(0)).kind, QuotaKind::kStreams) << "streams count without a limit, too";
  call.Settle(550, 0);
  call = Quota::Call();
  EXPECT_EQ(quota.Levels(0).tokens->remaining, 50);
  EXPECT_FALSE(quota.Levels(0).requests.has_value());
  CallOf(quota.TryBegin(0));
}

TEST(Quota, ManyThreadsTakeExactlyWhatThereIs) {
  constexpr int kThreads = 8;
  constexpr int64_t kRequests = 2000;
  Quota quota({.requests_per_minute = kRequests, .tokens_per_minute = 10 * kRequests, .concurrent_streams = kThreads});
  std::atomic<int64_t> admitted = 0;
  std::vector<std::thread> threads;
  threads.reserve(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&quota, &admitted, t] {
      for (int i = 0; i < kRequests; ++i) {
        std::variant<Quota::Call, QuotaRefusal> begun = quota.TryBegin(0);
        if (std::holds_alternative<QuotaRefusal>(begun)) return;
        Quota::Call call = CallOf(std::move(begun));
        if (!call.Reserve(4, 0).has_value()) call.Settle(t % 2 == 0 ? 3 : 5, 0);
        quota.Levels(0);
        admitted.fetch_add(1, std::memory_order_relaxed);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted.load(), kRequests);
  EXPECT_EQ(quota.Levels(0).requests->remaining, 0);
  EXPECT_EQ(quota.Levels(0).streams->remaining, kThreads);
  EXPECT_GE(quota.Levels(0).tokens->remaining, 5 * kRequests);
}

}  // namespace
}  // namespace dunlin::server
