// SPDX-License-Identifier: Apache-2.0
// The server's side of a run, sampled from its /metrics: before, once a second during, and after.
// Thread rule: the io_context's one thread.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/load/http_target.h"
#include "tools/load/load_time.h"

namespace boost::asio {
class io_context;
}

namespace dunlin::tools::load {

// Each field is the sum over the labels of a series; -1: the server has no such series.
struct ServerSample {
  TimeNs time = 0;
  double rss_bytes = -1;
  double cpu_seconds = -1;
  double threads = -1;
  double open_fds = -1;
  double kv_pages_used = -1;
  double kv_pages_total = -1;
  double running = -1;
  double waiting = -1;
  double preemptions = -1;
};

// The fields of a sample: series in /metrics, key in the JSON result.
struct ServerField {
  const char* series;
  const char* key;
  double ServerSample::*field;
};
inline constexpr ServerField kServerFields[] = {
    {"process_resident_memory_bytes", "rss_bytes", &ServerSample::rss_bytes},
    {"process_cpu_seconds_total", "cpu_seconds", &ServerSample::cpu_seconds},
    {"process_threads", "threads", &ServerSample::threads},
    {"process_open_fds", "open_fds", &ServerSample::open_fds},
    {"dunlin_kv_pages_used", "kv_pages_used", &ServerSample::kv_pages_used},
    {"dunlin_kv_pages_total", "kv_pages_total", &ServerSample::kv_pages_total},
    {"vllm:num_requests_running", "running", &ServerSample::running},
    {"vllm:num_requests_waiting", "waiting", &ServerSample::waiting},
    {"vllm:num_preemptions_total", "preemptions", &ServerSample::preemptions},
};

// Of the Prometheus text format. Malformed lines are skipped.
ServerSample ParseServerSample(std::string_view metrics_text);

class ServerWatch {
 public:
  ServerWatch(boost::asio::io_context* io, const HttpTarget& target);
  ~ServerWatch();
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

  // Takes one sample and keeps it; blocks. REQUIRES: io does not run. Errors: UNAVAILABLE.
  absl::StatusOr<ServerSample> ReadNow();
  // Samples once a second while io runs, until Stop; failed samples are skipped.
  void Start();
  void Stop();
  // The samples since the last call.
  std::vector<ServerSample> TakeSamples();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the request in flight
};

}  // namespace dunlin::tools::load
