// SPDX-License-Identifier: Apache-2.0
#include "engine/parallel/spin_wait.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace dunlin::engine {
namespace {

constexpr std::chrono::microseconds kNever{0};
constexpr std::chrono::milliseconds kLate{5};
constexpr int32_t kMoreThanProcessors = 1 << 20;

TEST(SpinTime, IsHalvedByLateRanksAndWholeAfterOneInTime) {
  SpinTime spin(1);
  ASSERT_EQ(spin.now(), kRankSpin);
  spin.Adapt(kLate);
  EXPECT_EQ(spin.now(), kRankSpin / 2);
  for (int i = 0; i < 10; ++i) spin.Adapt(kLate);
  EXPECT_EQ(spin.now(), kRankSpin / 16);
  spin.Adapt(kRankSpin);
  EXPECT_EQ(spin.now(), kRankSpin);
}

TEST(SpinTime, IsNoneWhereRanksAreMoreThanProcessors) {
  ASSERT_GT(std::thread::hardware_concurrency(), 0u) << "the system does not tell";
  SpinTime spin(kMoreThanProcessors);
  EXPECT_EQ(spin.now(), kNever);
  spin.Adapt(kNever);
  spin.Adapt(kLate);
  EXPECT_EQ(spin.now(), kNever);
}

TEST(SpinTime, AWaitAdaptsIt) {
  for (const int32_t num_ranks : {1, kMoreThanProcessors}) {
    SpinTime spin(num_ranks);
    const auto before = spin.now();
    std::atomic<uint32_t> value{0};
    std::thread late([&value] {
      std::this_thread::sleep_for(kLate);
      value.store(1, std::memory_order_release);
      value.notify_all();
    });
    WaitWhile(value, 0, spin);
    EXPECT_EQ(value, 1u);
    EXPECT_EQ(spin.now(), before / 2);
    late.join();
    WaitWhile(value, 0, spin);
    EXPECT_EQ(spin.now(), before);
  }
}

}  // namespace
}  // namespace dunlin::engine
