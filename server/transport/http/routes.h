// SPDX-License-Identifier: Apache-2.0
// The routes of the HTTP port: /metrics, /healthz, /readyz. GET and HEAD only; no body is read.
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

// The data sources of the routes. Called on the HTTP thread; must not block.
struct HttpSources {
  std::function<std::string()> metrics;         // the Prometheus text format
  std::function<std::string()> sick_reason;     // empty: every part of the server makes progress or is idle
  std::function<std::string()> unready_reason;  // empty: models are loaded, nothing is sick, and no drain has begun
};

// The response to one request. A query in target is ignored.
HttpReply Route(const HttpSources& sources, std::string_view method, std::string_view target);

}  // namespace dunlin::server
