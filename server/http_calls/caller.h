// SPDX-License-Identifier: Apache-2.0
// What of a request's header every route reads. Pure functions, any thread.
#pragma once

#include <string>

#include "server/http_calls/http_status.h"
#include "server/serving/resolve/check_request.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

// As the client sent it; "" if it sent none.
inline std::string RequestIdOf(const HttpRequest& request) {
  return std::string(request.header(kRequestIdHeader));
}

// RequestIdOf, or "" if the core would not take it: for replies to calls that never reach the core.
inline std::string EchoedRequestIdOf(const HttpRequest& request) {
  std::string id = RequestIdOf(request);
  return CheckRequestId(id).has_value() ? std::string() : id;
}

}  // namespace dunlin::server
