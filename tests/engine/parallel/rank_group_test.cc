// SPDX-License-Identifier: Apache-2.0
// Ranks that meet: slow ones, one that stalls, one that fails.
#include "engine/parallel/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <thread>
#include <vector>

namespace dunlin::engine {
namespace {

using ::testing::HasSubstr;

constexpr int32_t kRanks = 3;
constexpr int kMeetings = 200;

void RunRanks(int32_t num_ranks, const std::function<void(int32_t)>& body) {
  std::vector<std::thread> threads;
  for (int32_t rank = 0; rank < num_ranks; ++rank) threads.emplace_back(body, rank);
  for (std::thread& thread : threads) thread.join();
}

TEST(RankGroup, WhatWasWrittenBeforeAMeetingIsReadAfterIt) {
  RankGroup group(kRanks);
  std::vector<int> written(kRanks, 0);  // plain memory: the meetings alone order it
  RunRanks(kRanks, [&](int32_t rank) {
    for (int i = 1; i <= kMeetings; ++i) {
      written[static_cast<size_t>(rank)] = i * 10 + rank;
      ASSERT_TRUE(group.Meet(rank));
      for (int32_t other = 0; other < kRanks; ++other) EXPECT_EQ(written[static_cast<size_t>(other)], i * 10 + other);
      ASSERT_TRUE(group.Meet(rank));
    }
  });
}

TEST(RankGroup, NobodyLeavesBeforeASlowRankComes) {
  RankGroup group(kRanks);
  std::atomic<int> came{0};
  RunRanks(kRanks, [&](int32_t rank) {
    for (int i = 1; i <= 5; ++i) {
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(2));  // longer than anybody spins
      ++came;
      ASSERT_TRUE(group.Meet(rank));
      EXPECT_GE(came, i * kRanks);
      ASSERT_TRUE(group.Meet(rank));
    }
  });
}

TEST(RankGroup, AStalledRankHoldsTheOthersUntilItGoesOn) {
  RankGroup group(2);
  std::atomic<bool> go{false};
  std::atomic<bool> left{false};
  std::thread stalled([&] {
    while (!go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_TRUE(group.Meet(0));
  });
  std::thread waiting([&] {
    EXPECT_TRUE(group.Meet(1));
    left = true;
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  EXPECT_FALSE(left);
  EXPECT_EQ(group.rank_at_fault(), 0);
  go = true;
  stalled.join();
  waiting.join();
  EXPECT_TRUE(left);
  EXPECT_EQ(group.rank_at_fault(), -1);
}

// Also while it has not left the meeting before, as one that is stopped while it waits.
TEST(RankGroup, TellsTheLowestRankThatOthersWaitFor) {
  RankGroup group(kRanks);
  EXPECT_EQ(group.rank_at_fault(), -1);
  std::atomic<bool> go{false};
  std::thread others([&] {
    RunRanks(kRanks, [&](int32_t rank) {
      EXPECT_TRUE(group.Meet(rank));
      while (rank != 0 && !go) std::this_thread::sleep_for(std::chrono::milliseconds(1));
      EXPECT_TRUE(group.Meet(rank));
    });
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (group.rank_at_fault() != 1 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  EXPECT_EQ(group.rank_at_fault(), 1);
  go = true;
  others.join();
  EXPECT_EQ(group.rank_at_fault(), -1);
}

TEST(RankGroup, AFailingRankReleasesThoseThatWaitForIt) {
  RankGroup group(kRanks);
  std::atomic<int> released{0};
  RunRanks(kRanks, [&](int32_t rank) {
    if (rank == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      group.Fail(rank, absl::InternalError("qkv in layer 3 failed"));
    } else if (!group.Meet(rank)) {
      ++released;
    }
  });
  EXPECT_EQ(released, 2);
  EXPECT_TRUE(group.failed());
  EXPECT_EQ(group.rank_at_fault(), 2);
  EXPECT_EQ(group.status().code(), absl::StatusCode::kInternal);
  EXPECT_EQ(std::string(group.status().message()), "rank 2 of 3: qkv in layer 3 failed");
}

TEST(RankGroup, TheFirstReasonStaysAndNobodyWaitsAgain) {
  RankGroup group(2);
  EXPECT_TRUE(group.status().ok());
  group.Fail(1, absl::InternalError("first"));
  group.Fail(0, absl::InternalError("second"));
  EXPECT_THAT(std::string(group.status().message()), HasSubstr("rank 1 of 2: first"));
  EXPECT_EQ(group.rank_at_fault(), 1);
  EXPECT_FALSE(group.Meet(0));  // alone: it would wait for ever
  EXPECT_FALSE(group.Meet(0));
}

// A rank that comes while another one fails either sees that or is released.
TEST(RankGroup, AFailureIsNeverMissed) {
  for (int i = 0; i < 300; ++i) {
    RankGroup group(2);
    std::thread failing([&] { group.Fail(0, absl::InternalError("gone")); });
    EXPECT_FALSE(group.Meet(1));
    failing.join();
  }
}

TEST(RankGroup, OneRankMeetsItself) {
  RankGroup group(1);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(group.Meet(0));
}

}  // namespace
}  // namespace dunlin::engine
