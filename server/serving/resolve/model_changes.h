// SPDX-License-Identifier: Apache-2.0
// What front ends tell of models that come and go while the server runs, and how callers load and unload them. A caller
// hears of the models that its key allows alone. Any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "server/access/principal.h"
#include "server/models/model_lifecycle.h"
#include "server/models/model_state.h"
#include "server/serving/core/serving_core.h"

namespace dunlin::server {

// What callers hear in place of a failure that may name files.
inline constexpr char kFailureInLog[] = "the last load failed; the server's log says why";
// Whether a caller hears of files of the server: administrators, and everybody where there are no keys.
bool HearsPaths(const Principal& caller);
// What the caller hears of adapters: of those that it may use, and of paths and failures as HearsPaths says.
void TellAdapters(const Principal& caller, std::vector<AdapterStatus>* adapters);

// The status of a call for a model that is not served: UNAVAILABLE with its state where the server knows the model,
// else NOT_FOUND.
absl::Status NotServed(const ServingCore& core, const Principal& caller, std::string_view model);

// Every model that the caller may use, served or not, by name; without a lifecycle those that are served. `failure` is
// told to administrators, and where there are no keys: it may name files. Others are referred to the log. Adapters are
// those of TellAdapters.
std::vector<ModelStatus> ModelStatusesFor(const ServingCore& core, const Principal& caller);
// Of one model; NOT_FOUND.
absl::StatusOr<ModelStatus> ModelStatusFor(const ServingCore& core, const Principal& caller, std::string_view model);

// Whether calls may change models: UNIMPLEMENTED without a lifecycle; PERMISSION_DENIED without keys, unless
// access.admin_without_keys is true.
absl::Status CheckMayChangeModels(const ServingCore& core);

// ModelLifecycle's Load, Reload or Unload.
using ModelChange = void (ModelLifecycle::*)(const std::string& model, ModelLifecycle::Done done);
// Carries a call out, whose endpoint needs Permission::kAdmin. Errors: as CheckMayChangeModels; NOT_FOUND; else as
// ModelLifecycle's, with a reason. done: once, on any thread, possibly within the call.
void ChangeModel(const ServingCore& core, const Principal& caller, const std::string& model, ModelChange change,
                 ModelLifecycle::Done done);

// Of a request that wants its model out of memory: ends the idle time of one that requests load
// (models[].idle_unload_s). Errors: NOT_FOUND.
struct FreedModel {
  std::string name;  // the model's own
  // It leaves the memory once no request uses it, or is not there. False: it stays, because no request loads it, an
  // adapter was named, or the caller's key lacks Permission::kAdmin.
  bool leaves = false;
};
absl::StatusOr<FreedModel> FreeModel(const ServingCore& core, const Principal& caller, std::string_view model);

}  // namespace dunlin::server
