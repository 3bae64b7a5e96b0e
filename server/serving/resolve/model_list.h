// SPDX-License-Identifier: Apache-2.0
// The models that a caller's requests may name now, as lists of APIs show them. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/access/principal.h"
#include "server/models/model_state.h"
#include "server/models/repository.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

struct ListedModel {
  std::string name;                // the model's, that of one of its profiles (profile_alias.h), or an adapter's
  ModelLease model;                // null: it is not in memory, and its next request loads it
  int32_t max_context_tokens = 0;  // prompt and output
  std::string path = {};           // of an adapter, if the caller hears of it
  std::string parent = {};         // of an adapter: the model that it adapts; "": none
  bool encoder = false;            // it makes vectors; of one that is not in memory, once that is known
  absl::Time unloads_at = absl::InfiniteFuture();  // ModelStatus::unloads_at, of ModelListFor
};

// Models in memory, in the order in which they were loaded; adapters of these; models that requests load, each with its
// adapters. Profiles follow what they belong to where the config lists them (profile_aliases).
std::vector<ListedModel> ModelListFor(const ServingCore& core, const Principal& caller);

// One of them, whether the config lists profiles or not. Errors: as FindFor's; UNAVAILABLE while the server loads.
absl::StatusOr<ListedModel> ListedModelFor(const ServingCore& core, const Principal& caller, std::string_view name);

}  // namespace dunlin::server
