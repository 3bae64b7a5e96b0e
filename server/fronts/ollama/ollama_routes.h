// SPDX-License-Identifier: Apache-2.0
// The routes of Ollama's API. Built once; const afterwards.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/serving/core/serving_core.h"
#include "server/transport/http/http_route.h"

namespace dunlin::server::ollama {

// The release of Ollama whose API this is. Clients refuse servers of an older one: VS Code those before 0.6.4.
inline constexpr char kApiVersion[] = "0.33.0";

struct OllamaSources {
  ServingCore* core = nullptr;  // outlives the routes
  std::string version;          // of the server
  std::string cpu_variant;      // of its kernels
  bool strict = false;          // ResponseFacts::strict, of all routes
  bool owns_root = false;       // "/" is no other front's
};

std::vector<HttpRoute> OllamaRoutes(const OllamaSources& sources);

// The body of a call that names a model and no more: show, pull. Errors: as ParseBody, and the first of any field.
struct NamingBody {
  std::string model;  // as the client calls it
  bool stream = true;
};
absl::StatusOr<NamingBody> ReadNaming(std::string_view text);

}  // namespace dunlin::server::ollama
