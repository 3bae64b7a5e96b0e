// SPDX-License-Identifier: Apache-2.0
// Pooling against the definition, and values that are not finite.
#include "engine/encoder/pooling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace dunlin::engine {
namespace {

using ::testing::ElementsAre;

constexpr int32_t kHidden = 3;
const std::vector<float> kRows = {3, 4, 10, 5, 6, 20, 7, 8, 60};

std::vector<float> Pool(Pooling pooling, bool normalize, int32_t dimensions, const std::vector<float>& rows = kRows,
                        bool* finite = nullptr) {
  std::vector<float> vector(static_cast<size_t>(dimensions));
  std::vector<double> sums(kHidden);
  BatchInput input{.num_tokens = static_cast<int32_t>(rows.size()) / kHidden,
                   .vector = vector.data(),
                   .dimensions = dimensions,
                   .pooling = pooling,
                   .normalize = normalize};
  PoolRows(rows.data(), input.num_tokens, kHidden, &input, &sums);
  if (finite != nullptr) *finite = input.finite;
  return vector;
}

TEST(Pooling, PoolsMeanFirstAndLast) {
  EXPECT_THAT(Pool(Pooling::kMean, false, 3), ElementsAre(5, 6, 30));
  EXPECT_THAT(Pool(Pooling::kCls, false, 3), ElementsAre(3, 4, 10));
  EXPECT_THAT(Pool(Pooling::kLast, false, 3), ElementsAre(7, 8, 60));
}

TEST(Pooling, TruncatesThenNormalises) {
  EXPECT_THAT(Pool(Pooling::kCls, false, 2), ElementsAre(3, 4));
  EXPECT_THAT(Pool(Pooling::kCls, true, 2), ElementsAre(0.6F, 0.8F));
  EXPECT_THAT(Pool(Pooling::kMean, true, 1), ElementsAre(1));
  EXPECT_THAT(Pool(Pooling::kMean, true, 3, {0, 0, 0}), ElementsAre(0, 0, 0));
}

TEST(Pooling, ReportsNonFiniteValues) {
  bool finite = false;
  Pool(Pooling::kMean, true, 3, kRows, &finite);
  EXPECT_TRUE(finite);
  for (const float bad : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    std::vector<float> rows = kRows;
    rows[4] = bad;
    Pool(Pooling::kMean, true, 3, rows, &finite);
    EXPECT_FALSE(finite);
    Pool(Pooling::kCls, true, 3, rows, &finite);
    EXPECT_TRUE(finite);  // it is not part of this vector
  }
}

}  // namespace
}  // namespace dunlin::engine
