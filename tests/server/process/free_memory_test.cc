// SPDX-License-Identifier: Apache-2.0
#include "server/process/free_memory.h"

#include <gtest/gtest.h>

namespace dunlin::server {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr engine::TimeNs kSecond = 1'000'000'000;

// A process of which everything over `used` can be given back.
struct FreeMemoryTest : ::testing::Test {
  size_t used = 100 * kMiB;
  size_t resident = 100 * kMiB;
  int times = 0;
  engine::TimeNs now = 100 * kSecond;
  FreeMemory memory{[this] { return resident; },
                    [this] {
                      resident = used;
                      ++times;
                    }};
};

TEST_F(FreeMemoryTest, IsGivenBackOnceTheProcessIsIdle) {
  memory.Look(true, now);
  EXPECT_EQ(times, 0) << "nothing has grown";
  resident = 300 * kMiB;
  memory.Look(true, now += kSecond);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(resident, used);
  memory.Look(true, now += kSecond);
  EXPECT_EQ(times, 1) << "nothing is left";
  resident = 104 * kMiB;
  memory.Look(true, now += kSecond);
  EXPECT_EQ(times, 1) << "too little";
}

TEST_F(FreeMemoryTest, IsGivenBackOnceAMinuteOfWork) {
  memory.Look(true, now);
  resident = 300 * kMiB;
  memory.Look(false, now += 61 * kSecond);
  EXPECT_EQ(times, 1);
  resident = 300 * kMiB;
  memory.Look(false, now += 30 * kSecond);
  EXPECT_EQ(times, 1);
  memory.Look(false, now += 31 * kSecond);
  EXPECT_EQ(times, 2);
}

TEST_F(FreeMemoryTest, WhatIsFreedLaterIsGivenBackToo) {
  memory.Look(true, now);
  used = resident = 300 * kMiB;
  memory.Look(true, now += kSecond);
  EXPECT_EQ(times, 1);
  EXPECT_EQ(resident, 300 * kMiB);
  used = 100 * kMiB;
  memory.Look(true, now += kSecond);
  EXPECT_EQ(resident, used);
}

TEST_F(FreeMemoryTest, WhatStaysInUseIsTriedAtGrowingIntervals) {
  memory.Look(true, now);
  used = resident = 300 * kMiB;
  for (int second = 0; second < 60; ++second) memory.Look(true, now += kSecond);
  EXPECT_GT(times, 2);
  EXPECT_LT(times, 8);
}

TEST_F(FreeMemoryTest, IsMeasuredAgainstTheLeast) {
  memory.Look(true, now);
  used = resident = 50 * kMiB;
  memory.Look(true, now += kSecond);
  EXPECT_EQ(times, 0);
  resident = 60 * kMiB;
  memory.Look(true, now += kSecond);
  EXPECT_EQ(times, 1);
}

}  // namespace
}  // namespace dunlin::server
