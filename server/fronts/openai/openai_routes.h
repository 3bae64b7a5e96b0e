// SPDX-License-Identifier: Apache-2.0
// The routes of OpenAI's and Anthropic's APIs, and those of the servers that speak them. Built once; const afterwards.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/serving/core/serving_core.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server {

struct OpenAiSources {
  std::function<std::string()> unready_reason;  // empty: requests are taken; called on the HTTP thread, must not block
  std::string version;                          // of the server
  std::string cpu_variant;                      // of its kernels
  bool strict = false;                          // ResponseFacts::strict, of all routes
};

// core outlives the routes.
std::vector<HttpRoute> OpenAiRoutes(ServingCore* core, const OpenAiSources& sources);

}  // namespace dunlin::server
