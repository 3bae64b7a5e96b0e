// SPDX-License-Identifier: Apache-2.0
// The routes for machines that watch the server: /metrics, /healthz, /readyz. They are answered on the HTTP thread,
// without admission, so that an overloaded server still answers them.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/access/permissions.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

// The data sources of the routes. Called on the HTTP thread; must not block.
struct HttpSources {
  std::function<std::string()> metrics;           // the Prometheus text format
  std::function<std::string()> unhealthy_reason;  // empty: every part of the server makes progress or is idle
  std::function<std::string()> unready_reason;    // empty: models are loaded, nothing is sick, and no drain has begun
};

inline constexpr Endpoint kProbeEndpoints[] = {
    {"GET /healthz", kOpenToAll},
    {"GET /readyz", kOpenToAll},
    {"GET /metrics", Permission::kMetrics},
};

std::vector<HttpRoute> ProbeRoutes(const HttpSources& sources);

}  // namespace dunlin::server
