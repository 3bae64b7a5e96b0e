// SPDX-License-Identifier: Apache-2.0
// The routes of the OpenAI API and of the servers that speak it. Built once; const afterwards.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "server/transport/http/http_route.h"

namespace dunlin::server {

// Called on the HTTP thread; must not block.
struct OpenAiSources {
  std::function<std::string()> unready_reason;  // empty: requests are taken
  std::string version;                          // of the server
};

std::vector<HttpRoute> OpenAiRoutes(const OpenAiSources& sources);

}  // namespace dunlin::server
