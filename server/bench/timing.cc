#include "server/bench/timing.h"

#include <algorithm>
#include <chrono>

namespace dunlin::server::bench {
namespace {

constexpr double kEnoughSeconds = 1.0;
constexpr double kWarmUpSeconds = 0.05;  // clocks, page tables, the pool's threads
constexpr int64_t kWarmUpCallsMax = 100;
constexpr double kGroupSeconds = 2e-3;  // of calls between two probes, at least
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

absl::StatusOr<Timing> Measure(double max_seconds, const LeastSeconds& least,
                               absl::FunctionRef<absl::Status(int64_t)> run,
                               absl::FunctionRef<absl::Status()> prepare) {
  const double begin = Now();
  int64_t call = 0;
  do {
    if (absl::Status status = prepare(); !status.ok()) return status;
    if (absl::Status status = run(call++); !status.ok()) return status;
  } while (call < kWarmUpCallsMax && Now() - begin < std::min(kWarmUpSeconds, max_seconds));
  std::vector<double> seconds;
  RoofPairs pairs(least);
  if (absl::Status status = pairs.Start(); !status.ok()) return status;
  const double first = Now();
  double now = first;
  const auto more = [&] {
    if (seconds.empty()) return true;
    if (now - begin >= max_seconds) return false;
    return seconds.size() < static_cast<size_t>(kMinIterations) || now - first < kEnoughSeconds;
  };
  while (more()) {
    if (absl::Status status = prepare(); !status.ok()) return status;
    const double start = Now();
    if (absl::Status status = run(call++); !status.ok()) return status;
    seconds.push_back(Now() - start);
    if (absl::Status status = pairs.Add(seconds.back()); !status.ok()) return status;
    now = Now();
  }
  Timing timing = TimingOf(seconds);
  timing.paired_ratio = pairs.Median();
  return timing;
}

}  // namespace dunlin::server::bench
