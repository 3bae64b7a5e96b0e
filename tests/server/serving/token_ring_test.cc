// SPDX-License-Identifier: Apache-2.0
#include "server/serving/output/token_ring.h"

#include <gtest/gtest.h>

#include <thread>

namespace dunlin::server {
namespace {

engine::TokenOutput Token(engine::TokenId id, int32_t num_top) {
  engine::TokenOutput token;
  token.token_id = id;
  token.logprob = static_cast<float>(-id);
  token.num_top = num_top;
  for (int32_t i = 0; i < num_top; ++i) token.top[static_cast<size_t>(i)] = {id + i, -1.0F};
  return token;
}

TEST(TokenRing, RefusesWhenFullAndGivesBackInOrder) {
  TokenRing ring(2, 3);
  EXPECT_EQ(ring.Front(), nullptr);
  EXPECT_TRUE(ring.Push(Token(5, 3), 50));
  EXPECT_TRUE(ring.Push(Token(6, 1), 60));
  EXPECT_FALSE(ring.Push(Token(7, 0), 70));
  ASSERT_NE(ring.Front(), nullptr);
  EXPECT_EQ(ring.Front()->id, 5);
  EXPECT_EQ(ring.Front()->time, 50);
  ASSERT_EQ(ring.FrontTop().size(), 3U);
  EXPECT_EQ(ring.FrontTop()[2].token_id, 7);
  ring.PopFront();
  EXPECT_TRUE(ring.Push(Token(8, 0), 80));
  EXPECT_EQ(ring.FrontTop().size(), 1U);
  ring.PopFront();
  EXPECT_EQ(ring.Front()->id, 8);
  ring.PopFront();
  EXPECT_EQ(ring.Front(), nullptr);
}

TEST(TokenRing, KeepsNoMoreTopsThanAskedForAndMayBeEmpty) {
  TokenRing ring(1, 2);
  EXPECT_TRUE(ring.Push(Token(1, 5), 0));
  EXPECT_EQ(ring.FrontTop().size(), 2U);
  TokenRing none(0, 0);
  EXPECT_FALSE(none.Push(Token(1, 0), 0));
  EXPECT_EQ(none.Front(), nullptr);
}

TEST(TokenRing, CarriesTokensBetweenTwoThreads) {
  constexpr int32_t kTokens = 20000;
  TokenRing ring(16, 2);
  std::thread producer([&ring] {
    for (int32_t i = 0; i < kTokens; ++i) {
      while (!ring.Push(Token(i, 2), i)) std::this_thread::yield();
    }
  });
  for (int32_t i = 0; i < kTokens; ++i) {
    while (ring.Front() == nullptr) std::this_thread::yield();
    ASSERT_EQ(ring.Front()->id, i);
    ASSERT_EQ(ring.FrontTop()[1].token_id, i + 1);
    ring.PopFront();
  }
  producer.join();
}

}  // namespace
}  // namespace dunlin::server
