// SPDX-License-Identifier: Apache-2.0
// Reports every call of a gRPC server to an observer: an interceptor, so that no service has to. It sees the calls of
// methods that the server does not have, too; not those that gRPC ends before it hands them over, because their first
// message is over the limit. What comes over the in-process channel (idle_ticker) is not counted.
// Source: gRFC A66, "Server Instruments".
#pragma once

#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <string>
#include <vector>

#include "server/transport/rpc_observer.h"

namespace dunlin::server {

inline constexpr char kOtherMethod[] = "other";

// services: full names of compiled-in services. observer outlives the server.
std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> NewCallCounter(
    RpcObserver* observer, const std::vector<std::string>& services);

}  // namespace dunlin::server
