// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/text_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "absl/time/clock.h"

namespace dunlin::server {
namespace {

TEST(TextBudget, BoundsWhatIsTakenAtOnce) {
  TextBudget budget(100);
  std::atomic<int64_t> most{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&budget, &most, i] {
      for (int round = 0; round < 200; ++round) {
        const TextBudget::Share share = budget.Take(10 + 10 * i);
        int64_t seen = budget.taken();
        int64_t known = most.load();
        while (seen > known && !most.compare_exchange_weak(known, seen)) {
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most.load(), 100);
  EXPECT_EQ(budget.taken(), 0);
}

TEST(TextBudget, ATextLargerThanAllOfItWaitsUntilItIsAlone) {
  TextBudget budget(100);
  std::atomic<bool> alone{false};
  std::thread large;
  {
    const TextBudget::Share share = budget.Take(1);
    large = std::thread([&budget, &alone] {
      const TextBudget::Share all = budget.Take(1000);
      alone = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_FALSE(alone);
  }
  large.join();
  EXPECT_TRUE(alone);
}

TEST(TextBudget, WhoHasWaitedInVainLeavesTheQueue) {
  TextBudget budget(100);
  std::optional<TextBudget::Share> share;
  {
    const TextBudget::Share taken = budget.Take(60);
    EXPECT_FALSE(budget.TakeUntil(absl::Now() + absl::Milliseconds(5), 50, &share));
    EXPECT_FALSE(share.has_value());
    ASSERT_TRUE(budget.TakeUntil(absl::Now() + absl::Seconds(5), 40, &share)) << "nobody is before it any more";
    EXPECT_EQ(budget.taken(), 100);
    share.reset();
  }
  EXPECT_EQ(budget.taken(), 0);
}

}  // namespace
}  // namespace dunlin::server
