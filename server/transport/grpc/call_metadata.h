// SPDX-License-Identifier: Apache-2.0
// A call's metadata: its deadline and its request id. Any thread, while the call is alive.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "engine/types.h"

namespace dunlin::server {

inline constexpr char kRequestIdKey[] = "x-request-id";

// The call's deadline, on the clock of `now`; kNoDeadline if it has none.
engine::TimeNs DeadlineNs(const grpc::CallbackServerContext& context, engine::TimeNs now);

// The client's x-request-id metadata, unvalidated; "" if there is none.
std::string RequestIdOf(const grpc::CallbackServerContext& context);

}  // namespace dunlin::server
