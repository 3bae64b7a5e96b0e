// SPDX-License-Identifier: Apache-2.0
// The one place where an absl::Status becomes an HTTP status. Pure functions, any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "server/access/quota.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

inline constexpr char kRequestIdHeader[] = "x-request-id";
inline constexpr char kIgnoredHeader[] = "x-dunlin-ignored";  // IgnoredNames::List

// 200 for OK. Of the reasons of server/serving/record/errors.h, those that name a limit of the server give 429, and
// those that pass by themselves 503.
int HttpStatusOf(const absl::Status& status);

// The reply to a call that failed: `body` as application/json, with Retry-After (in whole seconds, rounded up) and
// retry-after-ms if the status has a delay or is 503, and the request id, if there is one.
HttpReply ErrorReply(const absl::Status& status, std::string body, std::string_view request_id);

// x-ratelimit-limit-requests, -remaining-requests and -reset-requests, and the same of tokens: OpenAI's headers, which
// say how much of a key's quota is left, and when all of it is there again ("1.5s").
void AppendQuotaHeaders(const QuotaLevels& levels, HttpReply* reply);

// A reply of status 200 without a body, with the request id.
HttpReply OkReply(const char* content_type, std::string_view request_id);

}  // namespace dunlin::server
