// SPDX-License-Identifier: Apache-2.0
// The options of the listening port: every limit that gRPC itself can enforce. Pure functions.
#pragma once

#include <grpcpp/server_builder.h>

#include <string>

#include "server/access/limits.h"

namespace dunlin::server {

// Message, metadata and stream caps, memory of all connections, their age, keepalive, ping tolerance, no compression.
void ApplyLimits(const Limits& limits, grpc::ServerBuilder* builder);

bool IsUnixSocket(const std::string& address);

// True for "localhost", 127.0.0.0/8, ::1 and Unix sockets; false for other names and addresses.
bool IsLoopback(const std::string& address);

}  // namespace dunlin::server
