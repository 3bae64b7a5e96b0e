// SPDX-License-Identifier: Apache-2.0
#include "engine/base/checked_math.h"

#include <gtest/gtest.h>

#include <cstdint>

namespace dunlin::engine {
namespace {

TEST(CheckedU64, OverflowSticks) {
  const CheckedU64 large(UINT64_MAX / 2);
  EXPECT_TRUE((large + large).ok());
  EXPECT_FALSE((large * CheckedU64(3)).ok());
  EXPECT_FALSE((large + large + CheckedU64(2)).ok());
  EXPECT_FALSE((large * CheckedU64(3) * CheckedU64(0)).ok());
  EXPECT_FALSE(large * CheckedU64(3) == 0);
}

TEST(CheckedU64, AccumulatesInPlace) {
  CheckedU64 product(6);
  product *= 7;
  product += 8;
  EXPECT_EQ(product.value(), 50U);
  EXPECT_TRUE(product == 50);
}

TEST(CheckedU64, AlignsUpAndNoticesTheEnd) {
  EXPECT_EQ(CheckedU64(0).AlignedUp(64).value(), 0U);
  EXPECT_EQ(CheckedU64(1).AlignedUp(64).value(), 64U);
  EXPECT_EQ(CheckedU64(64).AlignedUp(64).value(), 64U);
  EXPECT_FALSE(CheckedU64(UINT64_MAX).AlignedUp(64).ok());
}

}  // namespace
}  // namespace dunlin::engine
