// SPDX-License-Identifier: Apache-2.0
// The options of the listening port: every bound that gRPC itself can enforce, from Limits. Pure functions.
#pragma once

#include <grpcpp/server_builder.h>

#include <string>

#include "server/serving/limits.h"

namespace dunlin::server {

// Message, metadata and stream caps, keepalive, ping tolerance, no compression, no port sharing.
void ApplyLimits(const Limits& limits, grpc::ServerBuilder* builder);

// "localhost", 127.0.0.0/8, ::1 and Unix sockets; a name or an address of any interface is not.
bool IsLoopback(const std::string& address);

}  // namespace dunlin::server
