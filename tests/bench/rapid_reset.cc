// SPDX-License-Identifier: Apache-2.0
// One flood of calls that are not seen through, against a server that runs, and what it costs: a row of memory, of a
// neighbour's latencies before and meanwhile, and of cut connections.
//   rapid_reset HOST:PORT PID [--method M] [--message HEX] [--shape S] [--connections N] [--rate CALLS/S] [--seconds S]
//   [--again]
// Give the server a limit of memory: a build without the bound takes all there is.
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "tests/integration/process/grpc_neighbour.h"
#include "tests/integration/process/http2_flood.h"

namespace dunlin::integration {
namespace {

constexpr auto kQuiet = std::chrono::seconds(5);

double ResidentMb(pid_t pid) {
  double pages = 0;
  std::ifstream statm("/proc/" + std::to_string(pid) + "/statm");
  statm >> pages >> pages;
  return pages * static_cast<double>(sysconf(_SC_PAGESIZE)) / (1 << 20);
}

// The most that a process holds while this object lives.
class MemoryWatch {
 public:
  explicit MemoryWatch(pid_t pid) : pid_(pid), thread_([this] { Run(); }) {}
  ~MemoryWatch() {
    stop_ = true;
    thread_.join();
  }
  double most_mb() const { return most_mb_; }

 private:
  void Run() {
    for (; !stop_; std::this_thread::sleep_for(std::chrono::milliseconds(20))) {
      most_mb_ = std::max(most_mb_.load(), ResidentMb(pid_));
    }
  }

  const pid_t pid_;
  std::atomic<bool> stop_{false};
  std::atomic<double> most_mb_{0};
  std::thread thread_;
};

bool Parse(const std::vector<std::string>& arguments, FloodOptions* options) {
  options->time = std::chrono::seconds(60);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    if (name == "--again") {
      options->connects_again = true;
      continue;
    }
    if (++i == arguments.size()) return false;
    const std::string& value = arguments[i];
    if (name == "--method") options->call.method = value;
    if (name == "--message") options->call.message = absl::HexStringToBytes(value);
    if (name == "--shape") options->shape = FindFloodShape(value);
    if (name == "--connections") options->num_connections = std::atoi(value.c_str());
    if (name == "--rate") options->calls_per_second = std::atoi(value.c_str());
    if (name == "--seconds") options->time = std::chrono::seconds(std::atoi(value.c_str()));
  }
  return options->shape != nullptr;
}

// The whole time is waited for, also when every connection is closed before.
void Run(const std::string& address, pid_t pid, const FloodOptions& options) {
  GrpcNeighbour neighbour(address, "demo");
  std::this_thread::sleep_for(kQuiet);
  const Latencies before = neighbour.Measure();
  const double before_mb = ResidentMb(pid);
  MemoryWatch memory(pid);
  const auto end = std::chrono::steady_clock::now() + options.time;
  const FloodResult flood = Flood(address, options);
  std::this_thread::sleep_until(end);
  const Latencies during = neighbour.Measure();
  std::printf(
      "| %s %s | %d | %lld | %.0f -> %.0f | %.1f / %.1f -> %.1f / %.1f | %d of %d, %d refused, %d unhealthy | %d, %.2f "
      "to %.2f s | "
      "%s |\n",
      options.call.method.c_str(), options.shape->name, options.num_connections,
      static_cast<long long>(flood.num_calls), before_mb, memory.most_mb(), before.p50_ms, before.p99_ms, during.p50_ms,
      during.p99_ms, during.num_failed, during.num_calls, during.num_refused, during.num_unhealthy, flood.num_closed,
      flood.first_cut_s, flood.last_cut_s, kill(pid, 0) == 0 ? "runs" : "has ended");
}

}  // namespace
}  // namespace dunlin::integration

int main(int argc, char** argv) {
  dunlin::integration::FloodOptions options;
  if (argc < 3 || !dunlin::integration::Parse({argv + 3, argv + argc}, &options)) {
    std::fprintf(
        stderr,
        "usage: rapid_reset HOST:PORT PID [--method M] [--message HEX] [--shape S] [--connections N] [--rate R] "
        "[--seconds S] [--again]\n");
    return 2;
  }
  dunlin::integration::Run(argv[1], static_cast<pid_t>(std::atoi(argv[2])), options);
  return 0;
}
