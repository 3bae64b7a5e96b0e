// SPDX-License-Identifier: Apache-2.0
// The routes of the page: its files at / and /page, and the documents under /status that it reads besides /metrics and
// the other fronts' routes. Their functions run on the HTTP thread.
#pragma once

#include <string>
#include <vector>

#include "server/fronts/page/profile_statistics.h"
#include "server/serving/core/serving_core.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server::page {

struct PageSources {
  const ServingCore* core = nullptr;
  const ProfileStatistics* statistics = nullptr;
  std::string version;      // of the server
  std::string cpu_variant;  // of its kernels
};

// What the sources point to outlives the routes.
std::vector<HttpRoute> PageRoutes(const PageSources& sources);

}  // namespace dunlin::server::page
