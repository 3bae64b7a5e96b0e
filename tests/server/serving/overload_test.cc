// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/overload.h"

#include <gtest/gtest.h>

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kOneSecond = 1'000'000'000;

TEST(Overload, IsRecentForASecondAfterARefusal) {
  Overload overload;
  EXPECT_FALSE(overload.recent(0));
  EXPECT_FALSE(overload.recent(5 * kOneSecond));
  overload.OnRefusal(5 * kOneSecond);
  EXPECT_TRUE(overload.recent(5 * kOneSecond));
  EXPECT_TRUE(overload.recent(6 * kOneSecond - 1));
  EXPECT_FALSE(overload.recent(6 * kOneSecond));
}

}  // namespace
}  // namespace dunlin::server
