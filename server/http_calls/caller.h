// SPDX-License-Identifier: Apache-2.0
// Who calls, and what of a request's header every route reads. Pure functions, any thread.
#pragma once

#include <string>

#include "server/access/principal.h"
#include "server/http_calls/http_status.h"
#include "server/serving/check_request.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

// On whose behalf the request comes: anonymous, whatever the header says. Keys in Authorization belong here.
inline Principal PrincipalOf(const HttpRequest& /*request*/) {
  return {};
}

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
