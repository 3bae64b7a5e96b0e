// SPDX-License-Identifier: Apache-2.0
// Wall-clock timing of a repeated call.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::tools::bench {

struct Timing {
  double median_us = 0.0;
  double min_us = 0.0;
  int32_t iterations = 0;     // samples
  int64_t group = 1;          // calls per sample
  double paired_ratio = 0.0;  // RoofPairs::Median
};

// The least time of a case, in seconds, at the machine's current speed; measured in about `probe_seconds`.
using LeastSeconds = std::function<absl::StatusOr<double>(double probe_seconds)>;

// Compares calls with the roof measured just before and after them. On a shared machine, rates measured a second apart
// do not compare; these share their disturbances.
class RoofPairs {
 public:
  // Without a function, does nothing.
  explicit RoofPairs(LeastSeconds least = nullptr) : least_(std::move(least)) {}
  absl::Status Start();
  // Called after each timed call. Short calls share a pair of probes.
  absl::Status Add(double call_seconds);
  // The median of least / taken time over the pairs; 0 when there is none.
  double Median() const;

 private:
  LeastSeconds least_;
  double least_before_ = 0.0;
  double group_seconds_ = 0.0;
  int64_t group_calls_ = 0;
  std::vector<double> ratios_;
};

// The median and minimum of samples in seconds. REQUIRES: at least one.
Timing TimingOf(const std::vector<double>& seconds);

inline constexpr int32_t kMinIterations = 5;

struct TimingOptions {
  double max_seconds;
  LeastSeconds least = nullptr;  // for paired_ratio
  // Waits for enqueued calls. Null: calls are synchronous and timed one by one. Otherwise calls are timed in groups of
  // about two milliseconds, each ended by a wait; a sample is the time per call.
  std::function<absl::Status()> wait = nullptr;
};

// Calls run(i) with i = 0, 1, 2, ...: warm-up calls, then timed ones, at least kMinIterations samples and more until a
// second has passed; max_seconds ends it earlier, after the first sample at the earliest. prepare() runs untimed before
// each warm-up call and each sample, and once more before a last single call, so that the final output does not depend
// on the group size. Returns the first error.
absl::StatusOr<Timing> Measure(
    const TimingOptions& options, absl::FunctionRef<absl::Status(int64_t)> run,
    absl::FunctionRef<absl::Status()> prepare = [] { return absl::OkStatus(); });

// Seconds of a monotonic clock.
double Now();

}  // namespace dunlin::tools::bench
