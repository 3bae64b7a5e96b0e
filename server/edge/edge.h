// SPDX-License-Identifier: Apache-2.0
// Assembles a running server's edge: the serving core, the front ends on top of it (fronts/table.h) and the transports
// that carry them.
// Thread rule: Start, Shutdown and the destructor are never concurrent with one another; the rest from any thread.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/admission.h"
#include "server/access/connection_counts.h"
#include "server/access/limits.h"
#include "server/fronts/front_settings.h"
#include "server/models/repository.h"
#include "server/models/watchdog.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/request_record.h"
#include "server/transport/grpc/grpc_server.h"
#include "server/transport/http/http_timeouts.h"
#include "server/transport/http/probe_routes.h"
#include "server/transport/rpc_observer.h"
#include "server/transport/tls/certificate_store.h"
#include "server/transport/zmq/event_publisher.h"

namespace dunlin::server {

struct EdgeHttpOptions {
  std::string address;  // "127.0.0.1:0": port 0 picks a free port
  HttpSources sources;  // outlive the edge
  ConnectionLimits connections{4096, 1024};
  HttpTimeouts timeouts;                  // `write` is not used: it is limits.slow_reader_timeout_ms
  std::vector<std::string> cors_origins;  // HttpServerOptions::cors_origins
  std::vector<std::string> host_names;    // HttpServerOptions::host_names
  HttpObserver on_response;               // HttpServerOptions::on_response
};

struct EdgeOptions {
  ServingOptions serving;                          // `endpoints` is not used: it is Endpoints()
  FrontSettings fronts;                            // which front ends are served, and how; by default all
  std::optional<EdgeHttpOptions> http;             // unset: no HTTP port
  std::string version;                             // of the server, for clients
  std::string cpu_variant;                         // of its kernels, for clients
  std::function<void()> shut_down;                 // FrontSources::shut_down
  RpcObserver* rpcs = nullptr;                     // of the gRPC port's calls; outlives the edge
  const CertificateStore* certificates = nullptr;  // both ports speak TLS; outlives the edge; null: neither does
  CutObserver on_cut;                              // GrpcServerOptions::on_cut
  std::optional<bool> reflection;                  // gRPC reflection; unset: on when the address is a loopback address
};

class Edge {
 public:
  Edge();
  // Calls Shutdown(InfinitePast()) if the edge is still running.
  ~Edge();
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;

  // Listens on `grpc_address` ("127.0.0.1:0": port 0 picks a free port) and returns the port. Until SetServing(true),
  // Health reports NOT_SERVING for every name and calls are refused with UNAVAILABLE; the probes of the HTTP port are
  // answered. repository and observer must outlive this object; observer may be null. Errors: INVALID_ARGUMENT
  // (options), UNAVAILABLE (an address cannot be bound). REQUIRES: called once.
  absl::StatusOr<int> Start(const std::string& grpc_address, const Limits& limits, ModelRepository* repository,
                            RequestObserver* observer, const EdgeOptions& options = {});

  // The address of the HTTP port, with the actual port. REQUIRES: started, with such a port.
  const std::string& http_address() const;

  // Publishes the KV events of a model of the repository over ZeroMQ, as long as this object lives. Errors: as
  // VllmKvEventSources::Publish. REQUIRES: started.
  absl::Status PublishKvEvents(const std::string& model, const EventPublisherOptions& options);

  // Sets what Health reports while nothing is stalled. The first `true` also opens admission; a later `false` only
  // tells load balancers (the lame-duck phase): calls are still accepted until StartDraining.
  void SetServing(bool serving);

  // From now on, the watchdog watches the text pool, the thread of it that delivers, gRPC's threads, the one that
  // accepts its connections, and the HTTP thread. REQUIRES: started; watchdog outlives this object.
  void WatchWith(Watchdog* watchdog);

  // Health and admission follow what the watchdog has found: while a part is stalled or a device has failed, Health
  // reports NOT_SERVING for every name and new calls are refused with UNAVAILABLE and the reason. REQUIRES: started.
  void ApplyHealth(const Watchdog::HealthReport& report);

  // From now on Health reports NOT_SERVING and new calls are refused with UNAVAILABLE for this reason; calls in flight
  // continue.
  void StartDraining(AdmissionRefusal why = AdmissionRefusal::kDraining);

  // Starts draining, waits until `deadline` at the latest for the calls in flight, then stops every engine of the
  // repository, which ends the remaining calls with UNAVAILABLE; closes the gRPC port and joins its threads. The probes
  // of the HTTP port are answered until this object is destroyed. Idempotent.
  void Shutdown(absl::Time deadline);

  // Calls and bytes admitted at the moment, for metrics. REQUIRES: started.
  AdmissionStats admission_stats() const;
  // Connections of the gRPC port that were cut. REQUIRES: started.
  uint64_t num_connections_cut() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
