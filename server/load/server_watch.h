// The server's side of a run, out of its /metrics: before, once a second meanwhile, and after.
// Thread rule: the io_context's one thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/load/http_target.h"
#include "server/load/load_time.h"

namespace dunlin::server::load {

// -1: the server has no such series. Sums over a series' labels.
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

// Of the Prometheus text format. Lines that cannot be read are passed over.
ServerSample ParseServerSample(std::string_view metrics_text);

class ServerWatch {
 public:
  ServerWatch(boost::asio::io_context* io, const HttpTarget& target);
  ~ServerWatch();
  ServerWatch(const ServerWatch&) = delete;
  ServerWatch& operator=(const ServerWatch&) = delete;

  // One sample, kept too; blocks. REQUIRES: io does not run. Errors: UNAVAILABLE.
  absl::StatusOr<ServerSample> ReadNow();
  // Until Stop, each second that io runs; a sample that cannot be had is left out.
  void Start();
  void Stop();
  // What was sampled since the last call.
  std::vector<ServerSample> TakeSamples();

 private:
  struct State;
  std::shared_ptr<State> state_;  // shared with the request under way
};

}  // namespace dunlin::server::load
