// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/timing.h"

#include <algorithm>
#include <chrono>

namespace dunlin::tools::bench {
namespace {

constexpr double kEnoughSeconds = 1.0;
constexpr double kWarmUpSeconds = 0.05;  // for clock frequency, page tables and the pool's threads
constexpr int64_t kWarmUpCallsMax = 100;
constexpr double kGroupSeconds = 2e-3;  // at least between two probes; at most in one group
constexpr int64_t kGroupCallsMax = 1000;
constexpr double kProbeSecondsMin = 1e-3;
constexpr double kProbeSecondsMax = 20e-3;

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 != 0 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Timing TimingOf(const std::vector<double>& seconds) {
  return {.median_us = MedianOf(seconds) * 1e6,
          .min_us = *std::min_element(seconds.begin(), seconds.end()) * 1e6,
          .iterations = static_cast<int32_t>(seconds.size())};
}

absl::Status RoofPairs::Start() {
  if (least_ == nullptr) return absl::OkStatus();
  const absl::StatusOr<double> least = least_(kProbeSecondsMin);
  if (least.ok()) least_before_ = *least;
  return least.status();
}

absl::Status RoofPairs::Add(double call_seconds) {
  if (least_ == nullptr) return absl::OkStatus();
  group_seconds_ += call_seconds;
  ++group_calls_;
  if (group_seconds_ < kGroupSeconds) return absl::OkStatus();
  const absl::StatusOr<double> after = least_(std::clamp(group_seconds_ / 4, kProbeSecondsMin, kProbeSecondsMax));
  if (!after.ok()) return after.status();
  const double least = 2.0 / (1.0 / least_before_ + 1.0 / *after);  // at the mean of the two rates
  ratios_.push_back(static_cast<double>(group_calls_) * least / group_seconds_);
  least_before_ = *after;
  group_seconds_ = 0.0;
  group_calls_ = 0;
  return absl::OkStatus();
}

double RoofPairs::Median() const {
  return ratios_.empty() ? 0.0 : MedianOf(ratios_);
}

namespace {

// The calls of one case: prepares, counts and waits.
class Calls {
 public:
  Calls(const TimingOptions& options, absl::FunctionRef<absl::Status(int64_t)> run,
        absl::FunctionRef<absl::Status()> prepare)
      : options_(options), run_(run), prepare_(prepare) {}

  // Prepares, then makes `count` calls. Returns the seconds per call.
  absl::StatusOr<double> Run(int64_t count) {
    absl::Status status = prepare_();
    if (status.ok()) status = Wait();
    const double start = Now();
    for (int64_t i = 0; status.ok() && i < count; ++i) status = run_(made_++);
    if (status.ok()) status = Wait();
    if (!status.ok()) return status;
    return (Now() - start) / static_cast<double>(count);
  }
  // The group size for calls that take `seconds` each.
  int64_t GroupOf(double seconds) const {
    if (options_.wait == nullptr) return 1;
    return std::clamp(static_cast<int64_t>(kGroupSeconds / seconds), int64_t{1}, kGroupCallsMax);
  }
  int64_t made() const { return made_; }

 private:
  absl::Status Wait() const { return options_.wait == nullptr ? absl::OkStatus() : options_.wait(); }

  const TimingOptions& options_;
  absl::FunctionRef<absl::Status(int64_t)> run_;
  absl::FunctionRef<absl::Status()> prepare_;
  int64_t made_ = 0;
};

}  // namespace

absl::StatusOr<Timing> Measure(const TimingOptions& options, absl::FunctionRef<absl::Status(int64_t)> run,
                               absl::FunctionRef<absl::Status()> prepare) {
  const double begin = Now();
  Calls calls(options, run, prepare);
  int64_t group = 1;
  do {
    const absl::StatusOr<double> seconds = calls.Run(1);
    if (!seconds.ok()) return seconds.status();
    group = calls.GroupOf(*seconds);
  } while (calls.made() < kWarmUpCallsMax && Now() - begin < std::min(kWarmUpSeconds, options.max_seconds));
  std::vector<double> samples;
  RoofPairs pairs(options.least);
  if (absl::Status status = pairs.Start(); !status.ok()) return status;
  const double first = Now();
  double now = first;
  const auto more = [&] {
    if (samples.empty()) return true;
    if (now - begin >= options.max_seconds) return false;
    return samples.size() < static_cast<size_t>(kMinIterations) || now - first < kEnoughSeconds;
  };
  while (more()) {
    const absl::StatusOr<double> seconds = calls.Run(group);
    if (!seconds.ok()) return seconds.status();
    samples.push_back(*seconds);
    if (absl::Status status = pairs.Add(*seconds); !status.ok()) return status;
    now = Now();
  }
  if (group > 1) {
    if (const absl::StatusOr<double> last = calls.Run(1); !last.ok()) return last.status();
  }
  Timing timing = TimingOf(samples);
  timing.group = group;
  timing.paired_ratio = pairs.Median();
  return timing;
}

}  // namespace dunlin::tools::bench
