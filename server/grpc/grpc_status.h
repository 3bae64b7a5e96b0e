// The one place where an absl::Status becomes a gRPC status. Any thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace dunlin::server {

// Code and message as they are; the payloads of server/convert/errors.h become google.rpc.Status in
// grpc-status-details-bin. A status without ErrorInfo gets one with the reason INTERNAL.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The trailing metadata that goes with a status that carries RetryInfo, and its value; none without.
inline constexpr char kRetryPushbackKey[] = "grpc-retry-pushback-ms";
std::optional<std::string> RetryPushbackMs(const absl::Status& status);

// Adds it.
// REQUIRES: before Finish of the call.
void AddStatusTrailers(const absl::Status& status, grpc::CallbackServerContext* context);

}  // namespace dunlin::server
