// SPDX-License-Identifier: Apache-2.0
// The Open Inference Protocol on the HTTP port: the routes under /v2. Their functions run on the HTTP thread.
#pragma once

#include <string>
#include <vector>

#include "server/fronts/kserve/model_statistics.h"
#include "server/serving/core/serving_core.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server::kserve {

// core and statistics outlive the routes. version: of the server, for clients.
std::vector<HttpRoute> KserveRoutes(ServingCore* core, const ModelStatistics* statistics, const std::string& version);

}  // namespace dunlin::server::kserve
