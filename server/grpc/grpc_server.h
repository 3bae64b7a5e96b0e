// The gRPC edge: one listening server with every service on it, its admission and its text pool.
// Thread rule: Start, Shutdown and the destructor on one thread, not concurrently; the rest from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "engine/engine.h"
#include "server/admission.h"
#include "server/limits.h"
#include "server/monotonic_clock.h"
#include "server/request_record.h"
#include "server/served_model.h"

namespace dunlin::server {

struct GrpcServerOptions {
  int text_threads = 2;            // of the text pool: tokenise, detokenise, stop strings, responses; [1, 64]
  std::optional<bool> reflection;  // unset: on when the address is a loopback one
  int stalled_reader_ms = 30000;   // a client that leaves the end of its stream unread is cut off after this
  engine::Engine::Clock clock = &MonotonicNs;  // the clock the engines were given
};

class GrpcServer {
 public:
  GrpcServer();
  // Shutdown(now) if it still runs.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Listens on `address` ("127.0.0.1:0": port 0 takes a free one) and returns the port. Health says NOT_SERVING for
  // every name, and Generate is refused with UNAVAILABLE, until SetServing(true). registry and observer outlive this
  // object; observer may be null. Errors: INVALID_ARGUMENT (options), UNAVAILABLE (the address cannot be bound).
  // REQUIRES: called once.
  absl::StatusOr<int> Start(const std::string& address, const Limits& limits, const ModelRegistry& registry,
                            RequestObserver* observer, const GrpcServerOptions& options = {});

  // What Health answers, for every service name and for "". The first `true` also opens Generate; a later `false` only
  // tells the load balancer (the lame-duck phase): calls are still taken until StartDraining.
  void SetServing(bool serving);

  // Health NOT_SERVING at once and for good; new Generate and Tokenizer calls are refused with UNAVAILABLE; what is
  // in flight goes on.
  void StartDraining();

  // StartDraining, then waits for the calls in flight, at most until `deadline`; then stops every engine of the
  // registry, so that what is left ends with UNAVAILABLE; closes the port and joins the threads. Idempotent.
  void Shutdown(absl::Time deadline);

  // Counters of what is accepted now, for metrics. REQUIRES: started.
  AdmissionStats admission_stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
