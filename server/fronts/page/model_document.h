// SPDX-License-Identifier: Apache-2.0
// The document of GET /status/models: what dunlin.v1.ModelService tells of models and their profiles, as JSON. Pure
// functions, any thread.
#pragma once

#include <span>
#include <string>

#include "server/access/principal.h"
#include "server/models/repository.h"

namespace dunlin::server::page {

struct ServerFacts {
  std::string version;
  std::string cpu_variant;  // of the kernels: "avx512_bf16"
};

// {"version","cpu_variant","models":[{"name",...,"default_profile","profiles":[{...,"supported","reasons"}]}]}: each
// model with every profile, in the order of ProfileTable::rows, and with the adapters that the caller may use.
std::string ModelsDocument(const ServerFacts& server, std::span<const ModelLease> models, const Principal& caller);

}  // namespace dunlin::server::page
