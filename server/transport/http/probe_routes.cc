// SPDX-License-Identifier: Apache-2.0
#include "server/transport/http/probe_routes.h"

namespace dunlin::server {
namespace {

HttpRoute ProbeRoute(const char* path, const std::function<std::string()>& reason) {
  return {"GET", path, [reason](const HttpRequest&) -> HttpReply {
            const std::string why = reason();
            if (why.empty()) return {200, kPlainText, "ok\n"};
            return {503, kPlainText, why + "\n"};
          }};
}

}  // namespace

std::vector<HttpRoute> ProbeRoutes(const HttpSources& sources) {
  const auto metrics = [render = sources.metrics](const HttpRequest&) -> HttpReply {
    return {200, "text/plain; version=0.0.4; charset=utf-8", render()};
  };
  return {{"GET", "/metrics", metrics},
          ProbeRoute("/healthz", sources.unhealthy_reason),
          ProbeRoute("/readyz", sources.unready_reason)};
}

}  // namespace dunlin::server
