// SPDX-License-Identifier: Apache-2.0
// What front ends tell of LoRA adapters, and how callers load and unload them. A key allows an adapter by the adapter's
// own name: one for the model alone sees none of its adapters, and one for an adapter does not see the model. Any
// thread.
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

struct AdapterOfModel {
  std::string model;
  AdapterStatus adapter;
};

// Every adapter that the caller may use, by model and name, loaded or not. `path` and `failure` are told to
// administrators, and where there are no keys: others get "" in place of a path and are referred to the log.
std::vector<AdapterOfModel> AdaptersFor(const ServingCore& core, const Principal& caller);
// The same of one; NOT_FOUND (UNKNOWN_ADAPTER).
absl::StatusOr<AdapterOfModel> AdapterFor(const ServingCore& core, const Principal& caller, std::string_view adapter);

struct AdapterLoad {
  std::string name;
  std::string path;
  std::string model;  // that gets it; "": the only one that takes adapters
  bool in_place = false;
  const char* model_field = "model";  // how errors call the field of `model`
};

// Carry calls out whose endpoints need Permission::kAdmin. Errors: as CheckMayChangeModels; INVALID_ARGUMENT; NOT_FOUND
// (the model, the adapter, nothing at the path); ALREADY_EXISTS (ADAPTER_EXISTS); else as ModelLifecycle's, with a
// reason. done: once, on any thread, possibly within the call.
void LoadAdapter(const ServingCore& core, const Principal& caller, const AdapterLoad& load, ModelLifecycle::Done done);
// ModelLifecycle's ReloadAdapter or UnloadAdapter.
using AdapterChange = void (ModelLifecycle::*)(const std::string& adapter, ModelLifecycle::Done done);
void ChangeAdapter(const ServingCore& core, const Principal& caller, const std::string& adapter, AdapterChange change,
                   ModelLifecycle::Done done);

}  // namespace dunlin::server
