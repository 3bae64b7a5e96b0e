// SPDX-License-Identifier: Apache-2.0
// Tells a call's connection how the call has ended: an interceptor, so that no service has to. What gRPC ends before it
// hands it over is not seen, and so never counts as answered. Thread rule: any thread.
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>

#include "server/transport/grpc/open_connections.h"

namespace dunlin::server {

// connections outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewEndedCalls(
    const OpenConnections* connections);

}  // namespace dunlin::server
