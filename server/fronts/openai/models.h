// SPDX-License-Identifier: Apache-2.0
// GET /v1/models and /v1/models/{id}. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace dunlin::server {

struct ModelFacts {
  std::string name;
  int64_t created = 0;             // Unix time at which it was loaded, seconds
  int32_t max_context_tokens = 0;  // prompt and output
};

// {"object":"list","data":[...]}
std::string ModelListBody(std::span<const ModelFacts> models);
// {"id","object":"model","created","owned_by","root","max_model_len"}
std::string ModelBody(const ModelFacts& model);

}  // namespace dunlin::server
