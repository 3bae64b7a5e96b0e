// SPDX-License-Identifier: Apache-2.0
#include "server/access/connection_counts.h"

#include <gtest/gtest.h>

namespace dunlin::server {
namespace {

TEST(ConnectionCounts, BoundsAllConnectionsAndThoseOfOneAddress) {
  ConnectionCounts counts({.total = 3, .per_address = 2});
  EXPECT_TRUE(counts.TryAdd("192.0.2.1"));
  EXPECT_TRUE(counts.TryAdd("192.0.2.1"));
  EXPECT_FALSE(counts.TryAdd("192.0.2.1"));
  EXPECT_TRUE(counts.TryAdd("192.0.2.2"));
  EXPECT_FALSE(counts.TryAdd("192.0.2.3"));
  counts.Remove("192.0.2.2");
  EXPECT_TRUE(counts.TryAdd("192.0.2.3"));
  counts.Remove("192.0.2.1");
  EXPECT_TRUE(counts.TryAdd("192.0.2.1"));
  EXPECT_EQ(counts.total(), 3);
}

}  // namespace
}  // namespace dunlin::server
