#include "server/pressure.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "server/grpc/give_way.h"

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kSecond = 1'000'000'000;

TEST(Pressure, IsHighForASecondAfterARefusal) {
  Pressure pressure;
  EXPECT_FALSE(pressure.high(0));
  EXPECT_FALSE(pressure.high(5 * kSecond));
  pressure.OnRefusal(5 * kSecond);
  EXPECT_TRUE(pressure.high(5 * kSecond));
  EXPECT_TRUE(pressure.high(6 * kSecond - 1));
  EXPECT_FALSE(pressure.high(6 * kSecond));
}

TEST(Pressure, AThreadGivesWayWhileItIsHigh) {
  std::thread thread([] {
    Pressure pressure;
    GiveWayUnder(pressure, kSecond);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
    pressure.OnRefusal(kSecond);
    GiveWayUnder(pressure, kSecond);
    EXPECT_EQ(sched_getscheduler(0), SCHED_BATCH);
    GiveWayUnder(pressure, 3 * kSecond);
    EXPECT_EQ(sched_getscheduler(0), SCHED_OTHER);
  });
  thread.join();
}

}  // namespace
}  // namespace dunlin::server
