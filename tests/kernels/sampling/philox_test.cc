// SPDX-License-Identifier: Apache-2.0
#include "kernels/shared/philox.h"

#include <gtest/gtest.h>

#include <set>

namespace dunlin::kernels {
namespace {

// Source: Random123's kat_vectors, philox4x32 10.
TEST(Philox, MatchesTheKnownAnswers) {
  EXPECT_EQ(Philox4x32(0, {0, 0, 0, 0}), (PhiloxBlock{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox4x32(~uint64_t{0}, {~0U, ~0U, ~0U, ~0U}),
            (PhiloxBlock{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox4x32(0x299f31d0a4093822, {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}),
            (PhiloxBlock{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, UniformStaysBelowOneAndHasTheRightMoments) {
  double sum = 0.0;
  double sum_of_squares = 0.0;
  constexpr int kDraws = 100000;
  for (int32_t i = 0; i < kDraws; ++i) {
    const double u = UniformAt(7, 0, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    sum += u;
    sum_of_squares += u * u;
  }
  EXPECT_NEAR(sum / kDraws, 1.0 / 2, 4 * 0.29 / 316);  // four standard errors: sigma 0.29, sqrt(kDraws) 316
  EXPECT_NEAR(sum_of_squares / kDraws, 1.0 / 3, 4 * 0.30 / 316);
}

TEST(Philox, SeedOutputIndexAndPositionAllMatter) {
  std::set<double> seen;
  for (uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 32}) {
    for (int32_t output_index = 0; output_index < 8; ++output_index) {
      for (int32_t position = 0; position < 100; ++position) seen.insert(UniformAt(seed, output_index, position));
    }
  }
  EXPECT_EQ(seen.size(), 3U * 8U * 100U);
}

}  // namespace
}  // namespace dunlin::kernels
