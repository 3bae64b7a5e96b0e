// SPDX-License-Identifier: Apache-2.0
// Percentiles against values sorted here, and the exact moments.
#include "tools/load/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "tools/load/random.h"

namespace dunlin::tools::load {
namespace {

TEST(DurationHistogram, EmptyIsZero) {
  const DurationHistogram histogram;
  EXPECT_EQ(histogram.count(), 0);
  EXPECT_EQ(histogram.mean_ms(), 0);
  EXPECT_EQ(histogram.PercentileMs(0.99), 0);
  EXPECT_TRUE(histogram.buckets().empty());
}

TEST(DurationHistogram, MomentsAreExact) {
  DurationHistogram histogram;
  for (const int64_t ms : {2, 4, 4, 4, 5, 5, 7, 9}) histogram.Add(ms * 1'000'000);
  EXPECT_DOUBLE_EQ(histogram.mean_ms(), 5);
  EXPECT_DOUBLE_EQ(histogram.stddev_ms(), 2);
  EXPECT_DOUBLE_EQ(histogram.min_ms(), 2);
  EXPECT_DOUBLE_EQ(histogram.max_ms(), 9);
}

TEST(DurationHistogram, SmallValuesHaveTheirOwnBuckets) {
  DurationHistogram histogram;
  for (int64_t ns = 1; ns <= 100; ++ns) histogram.Add(ns);
  EXPECT_DOUBLE_EQ(histogram.PercentileMs(0.5), 50e-6);
  EXPECT_DOUBLE_EQ(histogram.PercentileMs(0.99), 99e-6);
  EXPECT_DOUBLE_EQ(histogram.PercentileMs(0), 1e-6);
  EXPECT_DOUBLE_EQ(histogram.PercentileMs(1), 100e-6);
}

TEST(DurationHistogram, PercentilesMatchSortedValuesWithinTheBound) {
  for (const double spread : {1.0, 6.0, 20.0}) {
    Random random(7);
    DurationHistogram histogram;
    std::vector<int64_t> values;
    for (int i = 0; i < 20000; ++i) {
      values.push_back(static_cast<int64_t>(1000 * std::exp(spread * random.Uniform())));
      histogram.Add(values.back());
    }
    std::sort(values.begin(), values.end());
    for (const double fraction : {0.01, 0.5, 0.9, 0.99, 0.999}) {
      const auto rank = static_cast<size_t>(std::ceil(fraction * 20000)) - 1;
      const double exact_ms = static_cast<double>(values[rank]) / 1e6;
      EXPECT_NEAR(histogram.PercentileMs(fraction), exact_ms, 0.004 * exact_ms) << spread << " " << fraction;
    }
  }
}

TEST(DurationHistogram, BucketsHoldEveryValueOnceAndDoNotOverlap) {
  DurationHistogram histogram;
  for (const int64_t ns : {0L, 127L, 128L, 255L, 256L, 257L, 1L << 30, 1L << 50}) histogram.Add(ns);
  int64_t total = 0;
  double last_high = 0;
  for (const auto& bucket : histogram.buckets()) {
    EXPECT_GE(bucket.low_ms, last_high);
    EXPECT_GT(bucket.high_ms, bucket.low_ms);
    last_high = bucket.high_ms;
    total += bucket.count;
  }
  EXPECT_EQ(total, 8);
}

TEST(DurationHistogram, MergeEqualsAddingAll) {
  DurationHistogram all;
  DurationHistogram parts[2];
  for (int64_t i = 1; i < 1000; ++i) {
    all.Add(i * i * 1000);
    parts[i % 2].Add(i * i * 1000);
  }
  parts[0].Merge(parts[1]);
  EXPECT_EQ(parts[0].count(), all.count());
  EXPECT_DOUBLE_EQ(parts[0].min_ms(), all.min_ms());
  EXPECT_DOUBLE_EQ(parts[0].max_ms(), all.max_ms());
  EXPECT_NEAR(parts[0].mean_ms(), all.mean_ms(), 1e-9);
  EXPECT_DOUBLE_EQ(parts[0].PercentileMs(0.9), all.PercentileMs(0.9));
}

}  // namespace
}  // namespace dunlin::tools::load
