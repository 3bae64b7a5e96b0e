// SPDX-License-Identifier: Apache-2.0
#include "server/http_calls/route_guard.h"

#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "server/access/key_digest.h"
#include "server/http_calls/http_status.h"
#include "server/serving/resolve/authorize.h"

namespace dunlin::server {
namespace {

constexpr char kAuthorization[] = "Authorization";
constexpr char kApiKey[] = "x-api-key";

// Takes the key out of the request; "" unless each of the two headers is there once at most. Of two, the first counts.
std::string TakeKey(HttpRequest* request) {
  std::string key;
  std::string api_key;
  int num_keys = 0;
  int num_api_keys = 0;
  for (HttpHeader& header : request->headers) {
    if (absl::EqualsIgnoreCase(header.name, kAuthorization)) {
      ++num_keys;
      key = BearerKey(header.value);
      Wipe(&header.value);
    } else if (absl::EqualsIgnoreCase(header.name, kApiKey)) {
      ++num_api_keys;
      api_key = header.value;
      Wipe(&header.value);
    }
  }
  if (num_keys == 0) key.swap(api_key);
  Wipe(&api_key);
  if (num_keys > 1 || num_api_keys > 1) Wipe(&key);
  return key;
}

HttpReply TextRefusal(const HttpRequest& /*request*/, const absl::Status& status) {
  HttpReply reply = ErrorReply(status, absl::StrCat(status.message(), "\n"), "");
  reply.content_type = kPlainText;
  return reply;
}

using Refusal = HttpReply (*)(const HttpRequest& request, const absl::Status& status);

std::optional<HttpReply> Guard(const AccessControl& access, const EndpointTable& endpoints, const std::string& endpoint,
                               Refusal refusal, HttpRequest* request) {
  std::string key = access.enabled() ? TakeKey(request) : std::string();
  absl::StatusOr<Principal> caller = Authorize(access, endpoints, endpoint, key, [request] { return request->peer; });
  Wipe(&key);
  if (caller.ok()) {
    caller->address = request->caller.address;
    request->caller = *std::move(caller);
    return std::nullopt;
  }
  HttpReply reply = refusal(*request, caller.status());
  if (absl::IsUnauthenticated(caller.status()))
    reply.headers.push_back({"WWW-Authenticate", "Bearer realm=\"dunlin\""});
  return reply;
}

}  // namespace

absl::Status GuardRoutes(const AccessControl& access, const EndpointTable& endpoints, std::vector<HttpRoute>* routes) {
  for (HttpRoute& route : *routes) {
    const std::string endpoint = absl::StrCat(route.method, " ", route.path);
    if (endpoints.Find(endpoint) == nullptr) {
      return absl::InternalError(absl::StrCat(endpoint, " has no row in the table of permissions"));
    }
    const Refusal refusal = route.refusal == nullptr ? &TextRefusal : route.refusal;
    route.guard = [&access, &endpoints, endpoint, refusal](HttpRequest* request) {
      return Guard(access, endpoints, endpoint, refusal, request);
    };
  }
  return absl::OkStatus();
}

}  // namespace dunlin::server
