// The one place where an absl::Status becomes a gRPC status. Any thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace dunlin::server {

// Code and message as they are; the payloads of server/convert/errors.h become google.rpc.Status in
// grpc-status-details-bin. A status without ErrorInfo gets one with the reason INTERNAL.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The trailing metadata that goes with a status: `grpc-retry-pushback-ms` where it carries RetryInfo.
// REQUIRES: before Finish of the call.
void AddStatusTrailers(const absl::Status& status, grpc::CallbackServerContext* context);

}  // namespace dunlin::server
