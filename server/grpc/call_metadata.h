// What a call brings besides its message: its deadline and its name. Any thread, while the call lives.
#pragma once

#include <grpcpp/server_context.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/types.h"

namespace dunlin::server {

inline constexpr char kRequestIdKey[] = "x-request-id";

// The call's deadline on the clock that says `now`; kNoDeadline when it has none.
engine::TimeNs DeadlineNs(const grpc::CallbackServerContext& context, engine::TimeNs now);

// What a call that gRPC cancelled ends with: gRPC also cancels at the call's deadline, by its own clock.
absl::Status CancelledStatus(engine::TimeNs deadline, engine::TimeNs now);

// The message's request_id; or, when it is empty, the metadata x-request-id; or a drawn one.
// Errors: INVALID_ARGUMENT (over 128 bytes, or not printable ASCII).
absl::StatusOr<std::string> ChooseRequestId(const grpc::CallbackServerContext& context, std::string_view from_message);

}  // namespace dunlin::server
