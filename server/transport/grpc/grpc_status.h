// SPDX-License-Identifier: Apache-2.0
// The one place where an absl::Status becomes a gRPC status. Any thread.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "absl/status/status.h"

namespace dunlin::server {

// Code and message unchanged; the ErrorDetails of server/serving/record/errors.h become google.rpc.Status in
// grpc-status-details-bin: always an ErrorInfo (with the reason INTERNAL for a status that has none), then BadRequest,
// PreconditionFailure, QuotaFailure, ResourceInfo and RetryInfo as they apply.
grpc::Status ToGrpcStatus(const absl::Status& status);

// The end of a call: its status, and the trailing metadata of a status with a retry delay.
struct GrpcReply {
  grpc::Status status;
  std::optional<std::string> retry_pushback_ms;  // grpc-retry-pushback-ms
};
GrpcReply ToGrpcReply(const absl::Status& status);

// REQUIRES: before Finish of the call.
void AddTrailers(const GrpcReply& reply, grpc::CallbackServerContext* context);

}  // namespace dunlin::server
