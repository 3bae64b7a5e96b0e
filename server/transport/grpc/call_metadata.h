// SPDX-License-Identifier: Apache-2.0
// What a call brings besides its message: its deadline and its request id. Any thread, while the call lives.
#pragma once

#include <grpcpp/server_context.h>

#include <string>

#include "engine/types.h"

namespace dunlin::server {

inline constexpr char kRequestIdKey[] = "x-request-id";

// The call's deadline on the clock that says `now`; kNoDeadline when it has none.
engine::TimeNs DeadlineNs(const grpc::CallbackServerContext& context, engine::TimeNs now);

// The client's metadata x-request-id, as it came; "" when there is none.
std::string RequestIdOf(const grpc::CallbackServerContext& context);

}  // namespace dunlin::server
