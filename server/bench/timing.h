// Wall-clock timing of a call that is repeated.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::server::bench {

struct Timing {
  double median_us = 0.0;
  double min_us = 0.0;
  int32_t iterations = 0;     // samples
  int64_t group = 1;          // calls of a sample
  double paired_ratio = 0.0;  // RoofPairs::Median
};

// What a case takes at least on the machine as it is at this moment, in seconds, found out in about `probe_seconds`.
using LeastSeconds = std::function<absl::StatusOr<double>(double probe_seconds)>;

// Pairs calls with the roof of the moments before and after them. On a machine that others use too, a rate measured
// once says little of one measured a second later; these two share what disturbs them.
class RoofPairs {
 public:
  // Pairs nothing without a function.
  explicit RoofPairs(LeastSeconds least = nullptr) : least_(std::move(least)) {}
  absl::Status Start();
  // After each timed call. Short calls share a pair of probes.
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
  // Waits for what calls enqueued. Null: a call has finished when it returns, and is timed alone. Else calls are timed
  // in groups of about two milliseconds, at whose end the host waits; a sample is a call's share.
  std::function<absl::Status()> wait = nullptr;
};

// Calls run(i), with i = 0, 1, 2, ...: some calls to warm up, then timed ones: at least kMinIterations samples, and
// more until a second has passed; max_seconds ends it earlier, after the first sample at the earliest. Before each
// warm-up call and each sample stands prepare(), which is not timed; the last call of all has one of its own, so that
// its output does not depend on the size of a group. Returns the first error.
absl::StatusOr<Timing> Measure(
    const TimingOptions& options, absl::FunctionRef<absl::Status(int64_t)> run,
    absl::FunctionRef<absl::Status()> prepare = [] { return absl::OkStatus(); });

// Seconds of a monotonic clock.
double Now();

}  // namespace dunlin::server::bench
