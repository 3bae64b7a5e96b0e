// SPDX-License-Identifier: Apache-2.0
// What the HTTP port answers: /metrics, /healthz, /readyz. GET and HEAD only; no body is read.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace dunlin::server {

struct HttpReply {
  int status;  // 200, 404, 405, 503, ...
  std::string content_type;
  std::string body;
};

// Where the answers come from. Called on the HTTP thread; none blocks.
struct HttpSources {
  std::function<std::string()> metrics;         // the Prometheus text format
  std::function<std::string()> sick_reason;     // empty: every engine moves or is idle
  std::function<std::string()> unready_reason;  // empty: models are loaded and the server is not draining
};

// The answer to one request. target may carry a query, which is ignored.
HttpReply Route(const HttpSources& sources, std::string_view method, std::string_view target);

}  // namespace dunlin::server
