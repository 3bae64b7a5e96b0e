// SPDX-License-Identifier: Apache-2.0
// The trace that a request's header names. Pure function, any thread.
#pragma once

#include <optional>

#include "server/serving/core/serving_core.h"
#include "server/serving/record/trace_context.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

// What the client's traceparent and tracestate say; none if the core does not trace.
std::optional<TraceContext> TraceOf(const ServingCore& core, const HttpRequest& request);

}  // namespace dunlin::server
