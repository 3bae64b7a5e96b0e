// SPDX-License-Identifier: Apache-2.0
// The options of the listening port: every limit that gRPC itself can enforce. Pure functions.
#pragma once

#include <grpcpp/server_builder.h>

#include "server/access/limits.h"

namespace dunlin::server {

// Message, metadata and stream caps, memory of all connections, their age, keepalive, ping tolerance, no compression.
void ApplyLimits(const Limits& limits, grpc::ServerBuilder* builder);

}  // namespace dunlin::server
