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
  std::string root = {};           // of an adapter: its path, if the caller hears of it; "": the name
  std::string parent = {};         // of an adapter: the model that it adapts; "": none
};

// Whose clients ask: Anthropic's read "type":"model", "display_name", "lifecycle", "created_at" and "max_input_tokens",
// and of a list "has_more", "first_id" and "last_id", besides.
enum class ModelsApi : uint8_t { kOpenAi, kAnthropic };

// {"object":"list","data":[...]}
std::string ModelListBody(std::span<const ModelFacts> models, ModelsApi api = ModelsApi::kOpenAi);
// {"id","object":"model","created","owned_by","root","max_model_len"}, and of an adapter "parent"
std::string ModelBody(const ModelFacts& model, ModelsApi api = ModelsApi::kOpenAi);

}  // namespace dunlin::server
