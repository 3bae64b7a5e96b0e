// SPDX-License-Identifier: Apache-2.0
// What a translator of this front knows of its call. Plain data.
#pragma once

#include <string>

#include "server/http_calls/response_facts.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server::ollama {

struct CallFacts {
  const ServingCore* core = nullptr;  // whose models names stand for; outlives the call
  ResponseFacts response;
  std::string created_at;  // RFC 3339
};

}  // namespace dunlin::server::ollama
