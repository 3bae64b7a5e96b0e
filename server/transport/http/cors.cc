// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/cors.h"

#include <algorithm>

namespace dunlin::server {
namespace {

constexpr char kHeadersOfReplies[] =
    "retry-after, retry-after-ms, x-request-id, x-ratelimit-limit-requests, x-ratelimit-remaining-requests, "
    "x-ratelimit-reset-requests, x-ratelimit-limit-tokens, x-ratelimit-remaining-tokens, x-ratelimit-reset-tokens, "
    "x-dunlin-ignored, x-dunlin-max-tokens";
constexpr char kPreflightSeconds[] = "600";  // Chromium keeps no answer for longer than two hours

}  // namespace

bool CorsPolicy::Allows(std::string_view origin) const {
  return std::any_of(origins_.begin(), origins_.end(),
                     [origin](const std::string& own) { return own == "*" || own == origin; });
}

std::vector<HttpHeader> CorsPolicy::HeadersFor(std::string_view origin) const {
  if (origins_.empty()) return {};
  std::vector<HttpHeader> headers = {{"Vary", "Origin"}};
  if (origin.empty() || !Allows(origin)) return headers;
  headers.push_back({"Access-Control-Allow-Origin", std::string(origin)});
  headers.push_back({"Access-Control-Expose-Headers", kHeadersOfReplies});
  return headers;
}

std::vector<HttpHeader> CorsPolicy::PreflightHeadersOf(const HttpRequest& request, const std::string& methods) const {
  const std::string_view origin = request.header("Origin");
  if (origin.empty() || !Allows(origin) || request.header("Access-Control-Request-Method").empty()) return {};
  std::vector<HttpHeader> headers = {{"Access-Control-Allow-Methods", methods},
                                     {"Access-Control-Max-Age", kPreflightSeconds}};
  // Whatever the page sends: the routes read few headers, and client libraries add their own.
  const std::string_view asked = request.header("Access-Control-Request-Headers");
  if (!asked.empty()) headers.push_back({"Access-Control-Allow-Headers", std::string(asked)});
  return headers;
}

}  // namespace dunlin::server
