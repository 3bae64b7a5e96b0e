// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/unrouted_reply.h"

#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/transport/http/request_head.h"

namespace dunlin::server {
namespace {

constexpr size_t kMaxShownPathBytes = 128;  // of a path that no route has
constexpr int kNotAllowed = 405;
constexpr int kUpgradeRequired = 426;

HttpReply NotFound(const HttpRequest& request, const HttpRouteTable::Neighbour& neighbour) {
  std::string message =
      absl::StrCat("not found: nothing is served at ", absl::CHexEscape(request.path.substr(0, kMaxShownPathBytes)));
  if (neighbour.route != nullptr) absl::StrAppend(&message, "; ", neighbour.route->path, " is");
  return InTheFormOf(neighbour.api, TextReply(kNotFound, message));
}

// A path has other methods. Codex asks for a WebSocket first, and goes on with POST at once after 426 alone.
HttpReply NotAllowed(const HttpRequest& request, const HttpRouteTable::Neighbour& neighbour, const std::string& allow) {
  if (!absl::EqualsIgnoreCase(engine::AbslView(request.header("Upgrade")), "websocket")) {
    return InTheFormOf(neighbour.api, TextReply(kNotAllowed, "method not allowed; allowed: " + allow));
  }
  const std::string message = "there are no WebSockets here; allowed, over HTTP/1.1: " + allow;
  HttpReply reply = InTheFormOf(neighbour.api, TextReply(kUpgradeRequired, message));
  reply.headers.push_back({"Upgrade", "HTTP/1.1"});  // a 426 has to name a protocol that is spoken
  return reply;
}

}  // namespace

HttpReply InTheFormOf(const HttpRoute* route, HttpReply reply) {
  if (route == nullptr || route->refusal_body == nullptr) return reply;
  const auto code = reply.status == kNotFound ? absl::StatusCode::kNotFound : absl::StatusCode::kInvalidArgument;
  return {reply.status, kJsonText, route->refusal_body({code, reply.body.substr(0, reply.body.find('\n'))})};
}

HttpReply UnroutedReply(const HttpRouteTable& routes, const CorsPolicy& cors, const HttpRequest& request,
                        const HttpRouteTable::Match& match) {
  if (match.malformed) return InTheFormOf(match.route, TextReply(400, "the path is not validly percent-encoded"));
  const bool is_options = request.method == "OPTIONS";
  if (is_options && request.path == "*") return {kNoContent, "", ""};
  if (match.allow.empty()) return NotFound(request, routes.NeighbourOf(request));
  HttpReply reply{kNoContent, "", ""};
  if (!is_options) reply = NotAllowed(request, routes.NeighbourOf(request), match.allow);
  reply.headers.push_back({"Allow", match.allow});
  if (!is_options || !match.cors) return reply;
  for (HttpHeader& header : cors.PreflightHeadersOf(request, match.allow)) reply.headers.push_back(std::move(header));
  return reply;
}

}  // namespace dunlin::server
