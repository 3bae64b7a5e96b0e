// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/page_pool.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace dunlin::engine {
namespace {

TEST(PagePool, HandsOutEveryPageOnceAndThenNone) {
  PagePool pool(3);
  std::vector<bool> seen(3, false);
  for (int i = 0; i < 3; ++i) {
    const PageId page = pool.Allocate();
    ASSERT_GE(page, 0);
    EXPECT_FALSE(seen[static_cast<size_t>(page)]);
    seen[static_cast<size_t>(page)] = true;
  }
  EXPECT_EQ(pool.Allocate(), kNoPage);
  EXPECT_EQ(pool.num_free(), 0);
  EXPECT_TRUE(pool.CheckIntegrity().ok());
}

TEST(PagePool, FreesAPageWithItsLastReference) {
  PagePool pool(2);
  const PageId page = pool.Allocate();
  pool.Retain(page);
  pool.Release(page, true);
  EXPECT_EQ(pool.num_free(), 1);
  pool.Release(page, true);
  EXPECT_EQ(pool.num_free(), 2);
}

TEST(PagePool, ReusesTheLongestFreePageFirst) {
  PagePool pool(3);
  const PageId a = pool.Allocate(), b = pool.Allocate(), c = pool.Allocate();
  pool.Release(b, true);
  pool.Release(a, true);
  pool.Release(c, true);
  EXPECT_EQ(pool.Allocate(), b);
  EXPECT_EQ(pool.Allocate(), a);
  EXPECT_EQ(pool.Allocate(), c);
}

TEST(PagePool, TakesPagesNobodyWantsAgainBeforeReusableOnes) {
  PagePool pool(3);
  const PageId a = pool.Allocate(), b = pool.Allocate(), c = pool.Allocate();
  pool.Release(a, true);
  pool.Release(b, true);
  pool.Release(c, false);
  EXPECT_EQ(pool.Allocate(), c);
  EXPECT_EQ(pool.Allocate(), a);
}

TEST(PagePool, RetainTakesAFreePageBack) {
  PagePool pool(2);
  const PageId page = pool.Allocate();
  pool.Release(page, true);
  pool.Retain(page);
  EXPECT_EQ(pool.references(page), 1);
  EXPECT_NE(pool.Allocate(), page);
  EXPECT_EQ(pool.Allocate(), kNoPage);
}

TEST(PagePoolDeathTest, ReleaseOfAFreePageIsABrokenInvariant) {
  PagePool pool(2);
  EXPECT_DEATH(pool.Release(0, true), "broken invariant");
}

TEST(PagePool, KeepsItsBooksUnderRandomUse) {
  std::mt19937 random(1);
  PagePool pool(17);
  std::vector<PageId> held;
  for (int i = 0; i < 20000; ++i) {
    const auto choice = random() % 3;
    if (choice == 0) {
      const bool any_free = pool.num_free() > 0;
      const PageId page = pool.Allocate();
      ASSERT_EQ(page != kNoPage, any_free);
      if (page != kNoPage) held.push_back(page);
    } else if (choice == 1) {
      const auto page = static_cast<PageId>(random() % 17);
      pool.Retain(page);
      held.push_back(page);
    } else if (!held.empty()) {
      std::swap(held[random() % held.size()], held.back());
      pool.Release(held.back(), random() % 2 == 0);
      held.pop_back();
    }
    ASSERT_TRUE(pool.CheckIntegrity().ok()) << pool.CheckIntegrity();
  }
}

TEST(PagePool, HandsOutNoPageBeforeItIsUsable) {
  PagePool pool(5, 2);
  EXPECT_EQ(pool.Allocate(), 0);
  EXPECT_EQ(pool.Allocate(), 1);
  EXPECT_EQ(pool.Allocate(), kNoPage);
  EXPECT_TRUE(pool.CheckIntegrity().ok()) << pool.CheckIntegrity();
  pool.Release(1, true);
  pool.Grow(4);
  EXPECT_EQ(pool.num_usable(), 4);
  EXPECT_EQ(pool.num_free(), 3);
  EXPECT_TRUE(pool.CheckIntegrity().ok()) << pool.CheckIntegrity();
  EXPECT_EQ(pool.Allocate(), 2) << "pages that hold nothing come before one whose bytes may be needed again";
  EXPECT_EQ(pool.Allocate(), 3);
  EXPECT_EQ(pool.Allocate(), 1);
  pool.Grow(3);
  EXPECT_EQ(pool.num_usable(), 4) << "a pool never shrinks";
  pool.Grow(5);
  EXPECT_EQ(pool.Allocate(), 4);
  EXPECT_EQ(pool.Allocate(), kNoPage);
}

}  // namespace
}  // namespace dunlin::engine
