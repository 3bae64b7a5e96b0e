#include "server/bench/timing.h"

#include <algorithm>
#include <chrono>

namespace dunlin::server::bench {
namespace {

constexpr double kEnoughSeconds = 1.0;
constexpr double kWarmUpSeconds = 0.05;  // clocks, page tables, the pool's threads
constexpr int64_t kWarmUpCallsMax = 100;

}  // namespace

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Timing TimingOf(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  const size_t middle = seconds.size() / 2;
  const double median = seconds.size() % 2 != 0 ? seconds[middle] : (seconds[middle - 1] + seconds[middle]) / 2;
  return {
      .median_us = median * 1e6, .min_us = seconds.front() * 1e6, .iterations = static_cast<int32_t>(seconds.size())};
}

absl::StatusOr<Timing> Measure(double max_seconds, absl::FunctionRef<absl::Status(int64_t)> run,
                               absl::FunctionRef<absl::Status()> prepare) {
  const double begin = Now();
  int64_t call = 0;
  do {
    if (absl::Status status = prepare(); !status.ok()) return status;
    if (absl::Status status = run(call++); !status.ok()) return status;
  } while (call < kWarmUpCallsMax && Now() - begin < std::min(kWarmUpSeconds, max_seconds));
  std::vector<double> seconds;
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
    now = Now();
    seconds.push_back(now - start);
  }
  return TimingOf(std::move(seconds));
}

}  // namespace dunlin::server::bench
