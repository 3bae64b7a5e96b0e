// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/logits_row.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/shared/exponential.h"
#include "tests/kernels/sampling/random_logits.h"

namespace dunlin::kernels::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
// Around the sixteen lanes: shorter than one round, exact rounds, and a tail.
const int32_t kSizes[] = {1, 2, 15, 16, 17, 32, 50, 1000};

TEST(ExpNonPositive, IsWithinTwoUlpAndZeroFarBelow) {
  double worst = 0.0;
  for (float x = 0.0F; x > -87.0F; x -= 0.00137F) {
    const double exact = std::exp(static_cast<double>(x));
    worst = std::max(worst, std::abs(static_cast<double>(ExpNonPositive(x)) - exact) / exact);
  }
  EXPECT_LT(worst, 2 * 0x1p-23);
  EXPECT_EQ(ExpNonPositive(0.0F), 1.0F);
  EXPECT_EQ(ExpNonPositive(-88.0F), 0.0F);
  EXPECT_EQ(ExpNonPositive(-kInfinity), 0.0F);
}

TEST(FindPeak, FindsTheLowestIdOfTheMaximumAtEveryPosition) {
  for (int32_t size : kSizes) {
    for (int32_t at = 0; at < size; ++at) {
      std::vector<float> row(static_cast<size_t>(size), -3.0F);
      row[static_cast<size_t>(at)] = 2.0F;
      row.back() = 2.0F;
      const RowPeak peak = FindPeak(row.data(), size);
      ASSERT_TRUE(peak.valid);
      EXPECT_EQ(peak.max, 2.0F);
      EXPECT_EQ(peak.argmax, at);
    }
  }
}

TEST(CountAtLeast, CountsTiesAndTheValueItself) {
  for (int32_t size : kSizes) {
    std::vector<float> row(static_cast<size_t>(size));
    for (int32_t i = 0; i < size; ++i)
      row[static_cast<size_t>(i)] = static_cast<float>(i * 7 % 5);  // 0 to 4, with ties
    for (float value : {-1.0F, 0.0F, 2.0F, 4.0F, 5.0F}) {
      const auto expected = std::count_if(row.begin(), row.end(), [value](float x) { return x >= value; });
      EXPECT_EQ(CountAtLeast(row.data(), size, value), expected) << size << " " << value;
    }
  }
  const std::vector<float> masked = {1.0F, -kInfinity, -kInfinity};
  EXPECT_EQ(CountAtLeast(masked.data(), 3, -kInfinity), 3);
}

TEST(FindPeak, RefusesNanAndPositiveInfinityAtEveryPosition) {
  for (int32_t size : kSizes) {
    for (int32_t at = 0; at < size; ++at) {
      for (float bad : {kNan, -kNan, kInfinity}) {
        std::vector<float> row(static_cast<size_t>(size), 1.0F);
        row[static_cast<size_t>(at)] = bad;
        EXPECT_FALSE(FindPeak(row.data(), size).valid) << size << " " << at << " " << bad;
      }
    }
  }
}

TEST(FindPeak, RefusesARowWithNothingFinite) {
  const std::vector<float> row(40, -kInfinity);
  EXPECT_FALSE(FindPeak(row.data(), 40).valid);
}

TEST(FindPeak, AcceptsARowWhereAllButOneAreMasked) {
  std::vector<float> row(40, -kInfinity);
  row[33] = -1e30F;
  const RowPeak peak = FindPeak(row.data(), 40);
  ASSERT_TRUE(peak.valid);
  EXPECT_EQ(peak.argmax, 33);
}

TEST(LogSumExp, MatchesDoublePrecision) {
  for (int32_t size : kSizes) {
    const std::vector<float> row = RandomLogits(size, 5.0F, static_cast<uint32_t>(size));
    double sum = 0.0;
    for (float x : row) sum += std::exp(static_cast<double>(x));
    EXPECT_NEAR(LogSumExp(row.data(), size, FindPeak(row.data(), size).max), std::log(sum), 1e-6);
  }
}

TEST(FindTopLogprobs, OrdersByLogitThenByLowerId) {
  const std::vector<float> row = {1.0F, 3.0F, 2.0F, 3.0F, 2.0F, 3.0F};
  TokenOutput out;
  FindTopLogprobs(row.data(), 6, 0.5, 4, &out);
  ASSERT_EQ(out.num_top, 4);
  EXPECT_EQ(out.top[0].token_id, 1);
  EXPECT_EQ(out.top[1].token_id, 3);
  EXPECT_EQ(out.top[2].token_id, 5);
  EXPECT_EQ(out.top[3].token_id, 2);
  EXPECT_FLOAT_EQ(out.top[0].logprob, 2.5F);
  EXPECT_FLOAT_EQ(out.top[3].logprob, 1.5F);
}

TEST(FindTopLogprobs, AgreesWithASortAndKeepsItsBounds) {
  for (int32_t size : kSizes) {
    std::vector<float> row = RandomLogits(size, 2.0F, 99);
    for (float& x : row) x = std::round(x);  // many ties
    std::vector<int32_t> order(row.size());
    for (size_t i = 0; i < order.size(); ++i) order[i] = static_cast<int32_t>(i);
    std::stable_sort(order.begin(), order.end(),
                     [&](int32_t a, int32_t b) { return row[static_cast<size_t>(a)] > row[static_cast<size_t>(b)]; });
    for (int32_t num_top : {0, 1, 5, 20, 21}) {
      TokenOutput out;
      FindTopLogprobs(row.data(), size, 0.0, num_top, &out);
      ASSERT_EQ(out.num_top, std::min({num_top, 20, size}));
      for (int32_t i = 0; i < out.num_top; ++i) {
        EXPECT_EQ(out.top[static_cast<size_t>(i)].token_id, order[static_cast<size_t>(i)]);
      }
    }
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu
