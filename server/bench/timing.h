// Wall-clock timing of a call that is repeated.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace dunlin::server::bench {

struct Timing {
  double median_us = 0.0;
  double min_us = 0.0;
  int32_t iterations = 0;  // timed ones
};

// The median and minimum of samples in seconds. REQUIRES: at least one.
Timing TimingOf(std::vector<double> seconds);

inline constexpr int32_t kMinIterations = 5;

// Calls run(i), each time after prepare(), which is not timed, with i = 0, 1, 2, ...: some calls to warm up, then timed
// ones: at least kMinIterations, and more until a second has passed; max_seconds ends it earlier, after the first timed
// call at the earliest. Returns the first error.
absl::StatusOr<Timing> Measure(
    double max_seconds, absl::FunctionRef<absl::Status(int64_t)> run,
    absl::FunctionRef<absl::Status()> prepare = [] { return absl::OkStatus(); });

// Seconds of a monotonic clock.
double Now();

}  // namespace dunlin::server::bench
