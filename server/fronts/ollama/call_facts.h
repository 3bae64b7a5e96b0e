// SPDX-License-Identifier: Apache-2.0
// What a translator of this front knows of its call. Plain data.
#pragma once

#include <string>

#include "server/http_calls/response_facts.h"

namespace dunlin::server::ollama {

struct CallFacts {
  ResponseFacts response;
  std::string created_at;  // RFC 3339
};

}  // namespace dunlin::server::ollama
