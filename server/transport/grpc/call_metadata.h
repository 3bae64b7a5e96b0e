// SPDX-License-Identifier: Apache-2.0
// A call's metadata: its deadline, request id and trace. Any thread, while the call is alive.
#pragma once

#include <grpcpp/server_context.h>
#include <grpcpp/support/status.h>

#include <optional>
#include <string>

#include "engine/request/types.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/trace_context.h"

namespace dunlin::server {

inline constexpr char kRequestIdKey[] = "x-request-id";

// The call's deadline, on the clock of `now`; kNoDeadline if it has none.
engine::TimeNs DeadlineNs(const grpc::CallbackServerContext& context, engine::TimeNs now);

// The client's x-request-id metadata, unvalidated; "" if there is none.
std::string RequestIdOf(const grpc::CallbackServerContext& context);

// Sends the client's x-request-id back, if the core would take it: as initial metadata of a call that ends OK, as
// trailing metadata of one that fails, so that a client's retry policy can apply. For calls that have no other id.
// REQUIRES: before the call's last operation.
void EchoRequestId(const grpc::Status& end, grpc::CallbackServerContext* context);

// What the client's traceparent and tracestate say; none if the core does not trace.
std::optional<TraceContext> TraceOf(const ServingCore& core, const grpc::CallbackServerContext& context);

}  // namespace dunlin::server
