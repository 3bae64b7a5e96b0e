// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/rank_threads.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>
#include <vector>

namespace dunlin::engine {
namespace {

TEST(RankThreads, EveryRankRunsEveryRoundOnceOnItsOwnThread) {
  constexpr int32_t kFour = 4;
  RankThreads threads(kFour);
  EXPECT_EQ(threads.num_ranks(), kFour);
  std::vector<std::thread::id> ids(kFour);
  std::vector<int> runs(kFour, 0);
  for (int round = 0; round < 100; ++round) {
    threads.Run([&](int32_t rank) {
      const auto index = static_cast<size_t>(rank);
      if (round == 0) ids[index] = std::this_thread::get_id();
      EXPECT_EQ(ids[index], std::this_thread::get_id());
      ++runs[index];
    });
    for (const int count : runs) ASSERT_EQ(count, round + 1);
  }
  EXPECT_EQ(ids[0], std::this_thread::get_id());
}

TEST(RankThreads, RunsAllRanksAtOnce) {
  RankThreads threads(3);
  std::atomic<int> running{0};
  threads.Run([&](int32_t) {
    ++running;
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (running < 3 && std::chrono::steady_clock::now() < deadline) std::this_thread::yield();
    EXPECT_EQ(running, 3);
  });
}

TEST(RankThreads, WaitsForASlowRankAndForThoseThatSleep) {
  RankThreads threads(2);
  for (int round = 0; round < 3; ++round) {
    std::atomic<bool> done{false};
    threads.Run([&](int32_t rank) {
      if (rank == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      done = true;
    });
    EXPECT_TRUE(done);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));  // until the thread sleeps
  }
}

TEST(RankThreads, ThreadsBeginWithWhatIsAskedOfThem) {
  std::atomic<int> started{0};
  RankThreads threads(3, [&](int32_t rank) { started += rank; });
  threads.Run([](int32_t) {});
  EXPECT_EQ(started, 3);
}

TEST(RankThreads, OneRankHasNoThread) {
  RankThreads threads(1);
  int runs = 0;
  threads.Run([&](int32_t rank) { runs += 1 + rank; });
  EXPECT_EQ(runs, 1);
}

}  // namespace
}  // namespace dunlin::engine
