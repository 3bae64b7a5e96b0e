// SPDX-License-Identifier: Apache-2.0
#include "server/transport/grpc/overload_scheduling.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kSecond = 1'000'000'000;

TEST(OverloadScheduling, AThreadRunsUnderBatchSchedulingWhileOverloaded) {
  std::thread thread([] {
    Overload overload;
    UseBatchSchedulingWhenOverloaded(overload, kSecond);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    overload.OnRefusal(kSecond);
    UseBatchSchedulingWhenOverloaded(overload, kSecond);
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    UseBatchSchedulingWhenOverloaded(overload, 3 * kSecond);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  });
  thread.join();
}

}  // namespace
}  // namespace dunlin::server
