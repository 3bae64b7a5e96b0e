// SPDX-License-Identifier: Apache-2.0
#include "server/serving/core/overload.h"

#include <gtest/gtest.h>

namespace dunlin::server {
namespace {

constexpr engine::TimeNs kSecond = 1'000'000'000;

TEST(Overload, IsRecentForASecondAfterARefusal) {
  Overload overload;
  EXPECT_FALSE(overload.recent(0));
  EXPECT_FALSE(overload.recent(5 * kSecond));
  overload.OnRefusal(5 * kSecond);
  EXPECT_TRUE(overload.recent(5 * kSecond));
  EXPECT_TRUE(overload.recent(6 * kSecond - 1));
  EXPECT_FALSE(overload.recent(6 * kSecond));
}

}  // namespace
}  // namespace dunlin::server
