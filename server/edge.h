// SPDX-License-Identifier: Apache-2.0
// Assembles a running server's edge: the serving core, the front ends on top of it and the transports that carry them.
// Thread rule: Start, Shutdown and the destructor are never concurrent with one another; the rest from any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/admission.h"
#include "server/access/limits.h"
#include "server/models/heartbeat.h"
#include "server/models/repository.h"
#include "server/serving/request_record.h"
#include "server/serving/serving_core.h"

namespace dunlin::server {

struct EdgeOptions {
  ServingOptions serving;
  std::optional<bool> reflection;  // gRPC reflection; unset: on when the address is a loopback address
};

class Edge {
 public:
  Edge();
  // Calls Shutdown(InfinitePast()) if the edge is still running.
  ~Edge();
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  // Listens on `grpc_address` ("127.0.0.1:0": port 0 picks a free port) and returns the port. Until SetServing(true),
  // Health reports NOT_SERVING for every name and calls are refused with UNAVAILABLE. repository and observer must
  // outlive this object; observer may be null. Errors: INVALID_ARGUMENT (options), UNAVAILABLE (the address cannot be
  // bound). REQUIRES: called once.
  absl::StatusOr<int> Start(const std::string& grpc_address, const Limits& limits, ModelRepository* repository,
                            RequestObserver* observer, const EdgeOptions& options = {});

  // Sets what Health reports while nothing is stalled. The first `true` also opens admission; a later `false` only
  // tells load balancers (the lame-duck phase): calls are still accepted until StartDraining.
  void SetServing(bool serving);

  // From now on, the heartbeat watches the text pool and gRPC's threads. REQUIRES: started; heartbeat outlives this
  // object.
  void WatchWith(Heartbeat* heartbeat);

  // Health and admission follow what the heartbeat has found: while a part is stalled or a device has failed, Health
  // reports NOT_SERVING for every name and new calls are refused with UNAVAILABLE and the reason. REQUIRES: started.
  void Follow(const Heartbeat::Finding& finding);

  // From now on Health reports NOT_SERVING and new calls are refused with UNAVAILABLE for this reason; calls in flight
  // continue.
  void StartDraining(AdmissionRefusal why = AdmissionRefusal::kDraining);

  // Starts draining, waits until `deadline` at the latest for the calls in flight, then stops every engine of the
  // repository, which ends the remaining calls with UNAVAILABLE; closes the port and joins the threads. Idempotent.
  void Shutdown(absl::Time deadline);

  // Calls and bytes admitted at the moment, for metrics. REQUIRES: started.
  AdmissionStats admission_stats() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
