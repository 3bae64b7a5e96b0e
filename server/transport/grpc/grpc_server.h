// SPDX-License-Identifier: Apache-2.0
// One listening gRPC server for the given services, plus health and reflection.
// Thread rule: Start, Shutdown and the destructor are never concurrent with one another; the rest from any thread.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_control.h"
#include "server/access/limits.h"
#include "server/models/repository.h"
#include "server/transport/grpc/grpc_connection.h"
#include "server/transport/rpc_observer.h"
#include "server/transport/tls/certificate_store.h"

namespace dunlin::server {

struct GrpcService {
  grpc::Service* service;  // outlives the server
  std::string name;        // "dunlin.v1.GenerationService"
};

// Health and reflection.
inline constexpr Endpoint kGrpcServerEndpoints[] = {
    // Probes have no key. A model's health is told to keys that may use the model.
    {"/grpc.health.v1.Health/Check", kOpenToAll},
    {"/grpc.health.v1.Health/Watch", kOpenToAll},
    {"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Permission::kInfer},
    {"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo", Permission::kInfer},
};

struct GrpcServerOptions {
  Limits limits;
  std::optional<bool> reflection;                  // unset: on if the address is a loopback address
  ModelRepository* repository = nullptr;           // Health reports its models as "model/NAME"; outlives the server
  const AccessControl* access = nullptr;           // for health and reflection; outlives the server; null: no keys
  const EndpointTable* endpoints = nullptr;        // with a row for every method; outlives the server; null: no keys
  RpcObserver* rpcs = nullptr;                     // of every call, health and reflection too; outlives the server
  const CertificateStore* certificates = nullptr;  // TLS with its certificate; outlives the server; null: plain text
  CutObserver on_cut;                              // of connections that the server cuts; may be empty
};

class GrpcServer {
 public:
  GrpcServer();
  // Calls Shutdown if the server is still running.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Listens on `address` ("127.0.0.1:0": port 0 picks a free port) and returns the port. Health reports NOT_SERVING for
  // every name until SetServing(true). Errors: UNAVAILABLE (the address cannot be bound), INTERNAL (a method without a
  // row in the endpoint table). REQUIRES: called once.
  absl::StatusOr<int> Start(const std::string& address, const std::vector<GrpcService>& services,
                            const GrpcServerOptions& options);

  // Sets what Health reports, for every service name and for "". No effect after StopServing.
  void SetServing(bool serving);
  // From now on Health reports NOT_SERVING; calls are still accepted. REQUIRES, as SetServing: started.
  void StopServing();
  // Connections cut so far. REQUIRES: started.
  uint64_t num_cut() const;
  // Advances a few times a second while gRPC's threads handle calls. REQUIRES: started.
  uint64_t ticks() const;
  // Advances a few times a second while connections are accepted; those of a Unix socket are gRPC's threads'. REQUIRES:
  // started, and not shut down.
  uint64_t accept_turns() const;
  // Closes the port, allows one second for statuses still being sent, and joins gRPC's threads. No tick comes
  // afterwards. REQUIRES: no call is waiting for anything outside gRPC. Idempotent.
  void Shutdown();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
