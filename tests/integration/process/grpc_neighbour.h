// SPDX-License-Identifier: Apache-2.0
// A client beside an attack: on one connection, one call after another, health and short generations in turn. What it
// sees is counted from Measure to Measure. Thread rule: one thread; its calls are made on a thread of its own.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace dunlin::integration {

struct Latencies {
  int num_calls = 0;
  int num_failed = 0;      // without the whole answer, and not refused
  int num_refused = 0;     // for lack of capacity, with the time after which to come back
  int num_unhealthy = 0;   // answers of health that are not SERVING
  std::string last_error;  // of those that failed
  double p50_ms = 0;
  double p99_ms = 0;
};

class GrpcNeighbour {
 public:
  // model: that it generates with.
  GrpcNeighbour(const std::string& address, const std::string& model);
  ~GrpcNeighbour();
  GrpcNeighbour(const GrpcNeighbour&) = delete;
  GrpcNeighbour& operator=(const GrpcNeighbour&) = delete;

  // What came since the last Measure, or the start.
  Latencies Measure();

 private:
  void Run();
  void CallOnce(bool is_health);

  struct Stubs;
  const std::unique_ptr<Stubs> stubs_;
  const std::string model_;
  std::atomic<bool> stop_{false};
  std::mutex mutex_;  // guards what follows
  std::vector<double> times_ms_;
  Latencies counts_;
  std::thread thread_;
};

}  // namespace dunlin::integration
