// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/http_status.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

constexpr int32_t kMsPerSecond = 1000;
constexpr int32_t kUnavailableRetryMs = 1000;  // while the server loads, drains or stalls, which may take longer

void AddRequestId(std::string_view request_id, HttpReply* reply) {
  if (!request_id.empty()) reply->headers.push_back({kRequestIdHeader, std::string(request_id)});
}

}  // namespace

int HttpStatusOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
    case absl::StatusCode::kAlreadyExists:  // ADAPTER_EXISTS, as vLLM has it
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kCancelled:
      return 499;  // nobody reads it; as nginx logs a client that has gone
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    default:
      return 500;
  }
}

HttpReply ErrorReply(const absl::Status& status, std::string body, std::string_view request_id) {
  HttpReply reply{HttpStatusOf(status), kJsonText, std::move(body)};
  std::optional<int32_t> delay = RetryAfterMs(status);
  if (!delay.has_value() && reply.status == 503) delay = kUnavailableRetryMs;
  if (delay.has_value()) {
    reply.headers.push_back({"Retry-After", absl::StrCat((*delay + kMsPerSecond - 1) / kMsPerSecond)});
    reply.headers.push_back({"retry-after-ms", absl::StrCat(*delay)});
  }
  AddRequestId(request_id, &reply);
  return reply;
}

void AppendQuotaHeaders(const QuotaLevels& levels, HttpReply* reply) {
  const auto append = [reply](const char* what, const std::optional<QuotaLevel>& level) {
    if (!level.has_value()) return;
    const absl::Duration reset = absl::Ceil(absl::Nanoseconds(level->reset), absl::Milliseconds(1));
    reply->headers.push_back({absl::StrCat("x-ratelimit-limit-", what), absl::StrCat(level->limit)});
    reply->headers.push_back({absl::StrCat("x-ratelimit-remaining-", what), absl::StrCat(level->remaining)});
    reply->headers.push_back({absl::StrCat("x-ratelimit-reset-", what), absl::FormatDuration(reset)});
  };
  append("requests", levels.requests);
  append("tokens", levels.tokens);
}

HttpReply OkReply(const char* content_type, std::string_view request_id) {
  HttpReply reply{200, content_type, ""};
  AddRequestId(request_id, &reply);
  return reply;
}

}  // namespace dunlin::server
