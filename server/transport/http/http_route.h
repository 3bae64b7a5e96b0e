// SPDX-License-Identifier: Apache-2.0
// Which function answers which method and path. Const after construction; the functions run on the HTTP thread.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "server/transport/http/http_exchange.h"
#include "server/transport/http/http_message.h"

namespace dunlin::server {

// Called on the HTTP thread as the head of a response is sent, with the path of its route, "other" if no route has the
// path of the request; must not block.
using HttpObserver = std::function<void(std::string_view route, int status)>;

// Exactly one of answer and open is set.
struct HttpRoute {
  std::string method;  // "GET" answers HEAD, too
  std::string path;    // "/v1/models", or "/v1/models/{id}": a last segment in braces stands for the rest of a path
  std::function<HttpReply(const HttpRequest&)> answer = nullptr;  // at once; must not block; takes no body
  std::function<std::shared_ptr<HttpHandler>()> open = nullptr;   // a handler for one request
  size_t max_body_bytes = 0;                                      // 0: no body is accepted
  const char* max_body_key = nullptr;                             // the config key of that limit; for messages
  // Asked first, before a body is read: takes the key out of the request and sets its caller, or refuses it.
  std::function<std::optional<HttpReply>(HttpRequest*)> guard = nullptr;
  // How the route's API renders a caller's refusal; null: as text.
  HttpReply (*refusal)(const HttpRequest& request, const absl::Status& status) = nullptr;
  // The body of a refusal by the transport (a body that is too long, say), as JSON; null: its message as a text.
  // status: NOT_FOUND for a path that no route has, else INVALID_ARGUMENT.
  std::string (*refusal_body)(const absl::Status& status) = nullptr;
  // A header by which clients of the route's API are known on any path; null: there is none.
  const char* client_header = nullptr;
  bool takes_binary = false;  // bodies of application/octet-stream besides JSON
  bool cors =
      false;  // answers the preflights of HttpServerOptions::cors_origins: their pages may send it JSON and keys
};

class HttpRouteTable {
 public:
  explicit HttpRouteTable(std::vector<HttpRoute> routes) : routes_(std::move(routes)) {}

  struct Match {
    const HttpRoute* route = nullptr;  // null: no route has the method and the path
    std::string parameter;             // percent-decoded
    std::string allow;                 // "GET, HEAD, OPTIONS": the methods of the path; "" if nothing has the path
    bool cors = false;                 // a route of the path has cors
    bool malformed = false;            // the parameter is not validly percent-encoded
  };
  // path: without the query.
  Match Find(std::string_view method, std::string_view path) const;

  // What a client may have meant by a path that no route has.
  struct Neighbour {
    const HttpRoute* route = nullptr;  // "/v1/models" of "/models", "/v1/models/" and "/v1/v1/models"; null: none
    // Whose form a refusal has: by client_header, or of the path above, or that route, or else one whose path begins
    // with the same segment; null: none.
    const HttpRoute* api = nullptr;
  };
  Neighbour NeighbourOf(const HttpRequest& request) const;

 private:
  const std::vector<HttpRoute> routes_;
};

}  // namespace dunlin::server
