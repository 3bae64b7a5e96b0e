// SPDX-License-Identifier: Apache-2.0
// Listens for gRPC's connections and hands them over, within the limits of OpenConnections, which gRPC 1.51 does not
// have. One thread accepts, closes what is over a limit, and waits a moment when the process has no descriptor left:
// gRPC's own listener would accept every connection, and spin without descriptors. Thread rule: Listen, Serve and the
// destructor on one thread; port and turns from any thread.
#pragma once

#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/transport/grpc/open_connections.h"

namespace dunlin::server {

class ConnectionAcceptor {
 public:
  // Binds every address that "host:port" stands for (an IP address, [v6] in brackets, or a name; port 0 picks a free
  // one). connections outlives the result. user_timeout_ms: a connection whose client acknowledges no data for so long
  // is closed. Errors: UNAVAILABLE (it cannot be bound), with the reason.
  static absl::StatusOr<std::unique_ptr<ConnectionAcceptor>> Listen(const std::string& address,
                                                                    OpenConnections* connections,
                                                                    unsigned int user_timeout_ms);
  // Stops accepting. Connections that were handed over are gRPC's.
  ~ConnectionAcceptor();
  ConnectionAcceptor(const ConnectionAcceptor&) = delete;
  ConnectionAcceptor& operator=(const ConnectionAcceptor&) = delete;

  int port() const;
  // Advances a few times a second while connections are accepted.
  uint64_t turns() const;
  // Starts accepting. grpc_server: of a server that was started. REQUIRES: called once.
  void Serve(std::unique_ptr<grpc::experimental::ExternalConnectionAcceptor> grpc_server);

 private:
  struct State;
  explicit ConnectionAcceptor(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
