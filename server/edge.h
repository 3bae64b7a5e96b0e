// SPDX-License-Identifier: Apache-2.0
// The composition of a running server's edge: the serving core, the front ends over it, and the transports that carry
// them. Thread rule: Start, Shutdown and the destructor on one thread, not concurrently; the rest from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/admission.h"
#include "server/models/repository.h"
#include "server/serving/limits.h"
#include "server/serving/request_record.h"
#include "server/serving/serving_core.h"

namespace dunlin::server {

struct EdgeOptions {
  ServingOptions serving;
  std::optional<bool> reflection;  // of the gRPC server; unset: on when the address is a loopback one
};

class Edge {
 public:
  Edge();
  // Shutdown(now) if it still runs.
  ~Edge();
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  // Listens on `grpc_address` ("127.0.0.1:0": port 0 takes a free one) and returns the port. Health says NOT_SERVING
  // for every name, and calls are refused with UNAVAILABLE, until SetServing(true). repository and observer outlive
  // this object; observer may be null. Errors: INVALID_ARGUMENT (options), UNAVAILABLE (the address cannot be bound).
  // REQUIRES: called once.
  absl::StatusOr<int> Start(const std::string& grpc_address, const Limits& limits, ModelRepository* repository,
                            RequestObserver* observer, const EdgeOptions& options = {});

  // What Health answers. The first `true` also opens admission; a later `false` only tells load balancers (the
  // lame-duck phase): calls are still taken until StartDraining.
  void SetServing(bool serving);

  // Health says NOT_SERVING at once and for good; new calls are refused with UNAVAILABLE; those in flight go on.
  void StartDraining();

  // StartDraining, then waits for the calls in flight, at most until `deadline`; then stops every engine of the
  // repository, so that what is left ends with UNAVAILABLE; closes the port and joins the threads. Idempotent.
  void Shutdown(absl::Time deadline);

  // What is admitted now, for metrics. REQUIRES: started.
  AdmissionStats admission_stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
