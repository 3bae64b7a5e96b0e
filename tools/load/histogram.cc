// SPDX-License-Identifier: Apache-2.0
#include "tools/load/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "tools/load/load_time.h"

namespace dunlin::tools::load {
namespace {

constexpr int kSubBits = 7;  // 128 buckets to each power of two
constexpr int64_t kSubBuckets = 1 << kSubBits;
constexpr int kMaxBits = 44;  // 2^44 ns: 4.8 hours
constexpr int64_t kMaxNs = (int64_t{1} << kMaxBits) - 1;
constexpr size_t kNumBuckets = static_cast<size_t>((kMaxBits - kSubBits + 1) * kSubBuckets);

// Values under 128 have a bucket each; above, the 7 bits after the leading one pick it.
size_t BucketOf(int64_t value) {
  if (value < kSubBuckets) return static_cast<size_t>(value);
  const int shift = static_cast<int>(std::bit_width(static_cast<uint64_t>(value))) - kSubBits - 1;
  return static_cast<size_t>(shift * kSubBuckets + (value >> shift));
}

// The smallest value of a bucket.
int64_t LowOf(size_t index) {
  const auto i = static_cast<int64_t>(index);
  if (i < 2 * kSubBuckets) return i;
  const int64_t shift = i / kSubBuckets - 1;
  return (i - shift * kSubBuckets) << shift;
}

double MiddleMs(size_t index) {
  return (ToMs(LowOf(index)) + ToMs(LowOf(index + 1) - 1)) / 2;
}

}  // namespace

DurationHistogram::DurationHistogram() : counts_(kNumBuckets) {}

void DurationHistogram::Add(int64_t duration_ns) {
  const int64_t ns = std::clamp(duration_ns, int64_t{0}, kMaxNs);
  ++counts_[BucketOf(ns)];
  min_ns_ = count_ == 0 ? ns : std::min(min_ns_, ns);
  max_ns_ = std::max(max_ns_, ns);
  ++count_;
  sum_ms_ += ToMs(ns);
  sum_squares_ms_ += ToMs(ns) * ToMs(ns);
}

void DurationHistogram::Merge(const DurationHistogram& other) {
  if (other.count_ == 0) return;
  for (size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  min_ns_ = count_ == 0 ? other.min_ns_ : std::min(min_ns_, other.min_ns_);
  max_ns_ = std::max(max_ns_, other.max_ns_);
  count_ += other.count_;
  sum_ms_ += other.sum_ms_;
  sum_squares_ms_ += other.sum_squares_ms_;
}

double DurationHistogram::mean_ms() const {
  return count_ == 0 ? 0 : sum_ms_ / static_cast<double>(count_);
}

double DurationHistogram::stddev_ms() const {
  if (count_ == 0) return 0;
  const double mean = mean_ms();
  return std::sqrt(std::max(0.0, sum_squares_ms_ / static_cast<double>(count_) - mean * mean));
}

double DurationHistogram::min_ms() const {
  return ToMs(min_ns_);
}

double DurationHistogram::max_ms() const {
  return ToMs(max_ns_);
}

double DurationHistogram::PercentileMs(double fraction) const {
  if (count_ == 0) return 0;
  const auto rank =
      std::clamp(static_cast<int64_t>(std::ceil(fraction * static_cast<double>(count_))), int64_t{1}, count_);
  int64_t seen = 0;
  for (size_t i = 0; i < counts_.size(); ++i) {
    seen += counts_[i];
    if (seen >= rank) return std::clamp(MiddleMs(i), min_ms(), max_ms());
  }
  return max_ms();
}

std::vector<DurationHistogram::Bucket> DurationHistogram::buckets() const {
  std::vector<Bucket> filled;
  for (size_t i = 0; i < counts_.size(); ++i) {
    if (counts_[i] > 0) filled.push_back({ToMs(LowOf(i)), ToMs(LowOf(i + 1)), counts_[i]});
  }
  return filled;
}

}  // namespace dunlin::tools::load
