// SPDX-License-Identifier: Apache-2.0
// One listening gRPC server over the services that it is given; health and reflection are its own.
// Thread rule: Start, Shutdown and the destructor on one thread, not concurrently; the rest from any thread.
#pragma once

#include <grpcpp/impl/service_type.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/models/repository.h"
#include "server/serving/limits.h"

namespace dunlin::server {

struct GrpcService {
  grpc::Service* service;  // outlives the server
  std::string name;        // "dunlin.v1.GenerationService"
};

struct GrpcServerOptions {
  Limits limits;
  std::optional<bool> reflection;         // unset: on when the address is a loopback one
  ModelRepository* repository = nullptr;  // whose models Health knows by "model/NAME"; outlives the server
  std::function<void()> on_tick;  // called a few times a second, one call at a time, on gRPC's threads; must not block
};

class GrpcServer {
 public:
  GrpcServer();
  // Shutdown if it still runs.
  ~GrpcServer();
  GrpcServer(const GrpcServer&) = delete;
  GrpcServer& operator=(const GrpcServer&) = delete;

  // Listens on `address` ("127.0.0.1:0": port 0 takes a free one) and returns the port. Health says NOT_SERVING for
  // every name until SetServing(true). Errors: UNAVAILABLE (the address cannot be bound). REQUIRES: called once.
  absl::StatusOr<int> Start(const std::string& address, const std::vector<GrpcService>& services,
                            const GrpcServerOptions& options);

  // What Health answers, for every service name and for "". No effect after StopServing.
  void SetServing(bool serving);
  // NOT_SERVING for good; calls are still taken. REQUIRES, as SetServing: started.
  void StopServing();
  // Closes the port, gives statuses on their way a second, and joins gRPC's threads. No tick comes afterwards.
  // REQUIRES: whatever calls wait for has ended. Idempotent.
  void Shutdown();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
