// SPDX-License-Identifier: Apache-2.0
#include "server/access/token_bucket.h"

#include <gtest/gtest.h>

#include <limits>
#include <random>

namespace dunlin::server {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kMinute = 60 * kSecond;
constexpr int64_t kHuge = std::numeric_limits<int64_t>::max();

TEST(TokenBucket, HoldsOneMinutesWorthAndRefillsContinuously) {
  TokenBucket bucket(60);
  EXPECT_EQ(bucket.Remaining(0), 60);
  bucket.Take(60, 0);
  EXPECT_EQ(bucket.Remaining(0), 0);
  EXPECT_EQ(bucket.TimeToFull(0), kMinute);
  EXPECT_EQ(bucket.WaitFor(1, 0), kSecond);
  EXPECT_EQ(bucket.Remaining(kSecond - 1), 0);
  EXPECT_EQ(bucket.Remaining(kSecond), 1);
  EXPECT_EQ(bucket.WaitFor(1, kSecond), 0);
  EXPECT_EQ(bucket.Remaining(10 * kMinute), 60) << "no more than a minute's worth";
}

TEST(TokenBucket, AWaitThatWasGivenIsExact) {
  std::mt19937_64 dice(1);
  for (int i = 0; i < 2000; ++i) {
    const auto rate = static_cast<int64_t>(dice() % 1'000'000) + 1;
    const auto amount = static_cast<int64_t>(dice() % static_cast<uint64_t>(rate)) + 1;
    auto now = static_cast<int64_t>(dice() % (1U << 30));
    TokenBucket bucket(rate);
    bucket.Take(static_cast<int64_t>(dice() % static_cast<uint64_t>(3 * rate)), now);
    now += static_cast<int64_t>(dice() % static_cast<uint64_t>(kMinute));
    const int64_t wait = bucket.WaitFor(amount, now);
    if (wait == 0) continue;
    EXPECT_GT(bucket.WaitFor(amount, now + wait - 1), 0) << rate << " a minute, " << amount;
    EXPECT_EQ(bucket.WaitFor(amount, now + wait), 0) << rate << " a minute, " << amount;
    EXPECT_GE(bucket.Remaining(now + wait), amount);
  }
}

TEST(TokenBucket, ADebtIsPaidByTheRefillFirst) {
  TokenBucket bucket(60);
  bucket.Take(180, 0);
  EXPECT_EQ(bucket.Remaining(0), 0);
  EXPECT_EQ(bucket.WaitFor(0, 0), 2 * kMinute);
  EXPECT_EQ(bucket.WaitFor(1, 0), 2 * kMinute + kSecond);
  EXPECT_EQ(bucket.TimeToFull(0), 3 * kMinute);
  EXPECT_EQ(bucket.WaitFor(0, 2 * kMinute), 0);
}

TEST(TokenBucket, MoreThanAMinutesWorthNeedsAFullBucket) {
  TokenBucket bucket(60);
  EXPECT_EQ(bucket.WaitFor(1000, 0), 0);
  bucket.Take(1, 0);
  EXPECT_EQ(bucket.WaitFor(1000, 0), kSecond);
}

TEST(TokenBucket, TimeThatGoesBackCountsAsNone) {
  TokenBucket bucket(60);
  bucket.Take(60, kMinute);
  EXPECT_EQ(bucket.Remaining(0), 0);
  bucket.Take(1, 30 * kSecond);
  EXPECT_EQ(bucket.WaitFor(0, 0), kSecond);
  EXPECT_EQ(bucket.Remaining(kMinute + 2 * kSecond), 1) << "counted from the latest time";
}

TEST(TokenBucket, TakesTheWholeRangeOfTimesAndAmounts) {
  TokenBucket bucket(kHuge);
  EXPECT_EQ(bucket.Remaining(std::numeric_limits<int64_t>::min()), kHuge);
  for (int i = 0; i < 5; ++i) bucket.Take(kHuge, 0);
  EXPECT_EQ(bucket.Remaining(0), 0);
  EXPECT_EQ(bucket.TimeToFull(0), kMinute) << "a debt has an end";
  EXPECT_EQ(bucket.Remaining(kHuge), kHuge);
  TokenBucket slow(1);
  slow.Take(kHuge, 0);
  EXPECT_EQ(slow.TimeToFull(0), TokenBucket::kNever - 1);
  slow.GiveBack(kHuge);
  EXPECT_EQ(slow.Remaining(0), 1);
}

TEST(TokenBucket, AtARateOfZeroThereIsNeverAnything) {
  TokenBucket bucket(0);
  EXPECT_EQ(bucket.Remaining(kMinute), 0);
  EXPECT_EQ(bucket.WaitFor(0, kMinute), TokenBucket::kNever);
  EXPECT_EQ(bucket.TimeToFull(kMinute), 0);
}

TEST(TokenBucket, ANewRateKeepsWhatWasTaken) {
  TokenBucket bucket(100);
  bucket.Take(40, 0);
  bucket.SetRate(1000, 0);
  EXPECT_EQ(bucket.Remaining(0), 960);
  bucket.SetRate(10, 0);
  EXPECT_EQ(bucket.Remaining(0), 0);
  EXPECT_EQ(bucket.WaitFor(0, 0), 3 * kMinute);
  bucket.SetRate(40, kMinute);
  EXPECT_EQ(bucket.Remaining(kMinute), 10) << "the old rate holds until the new one is set";
}

TEST(TokenBucket, GivesBackAtMostToAFullBucket) {
  TokenBucket bucket(60);
  bucket.Take(30, 0);
  bucket.GiveBack(50);
  EXPECT_EQ(bucket.Remaining(0), 60);
  bucket.Take(60, 0);
  EXPECT_EQ(bucket.Remaining(0), 0);
}

}  // namespace
}  // namespace dunlin::server
