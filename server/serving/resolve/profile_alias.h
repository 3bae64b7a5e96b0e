// SPDX-License-Identifier: Apache-2.0
// Model names that choose a profile: "name@BACKEND-PRECISION", "name@BACKEND" and "name@PRECISION" stand for the model
// "name" with that attention backend and precision, in every protocol: routers drop the fields that would say so.
// A model whose own name is the whole text comes first. Pure but for the lease, any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/models/repository.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_field.h"

namespace dunlin::server {

// The model that a name stands for, whatever suffix it has; null if there is none.
ModelLease LeaseNamed(const ServingCore& core, std::string_view name);
// The same of a model that may not be served: its own name; `name` if the server knows none.
std::string BaseNameOf(const ServingCore& core, std::string_view name);

// What the suffix of a name chooses; nothing if the name is the model's own. REQUIRES: model is the one that
// LeaseNamed found for the name. Errors: INVALID_ARGUMENT, with the model's profiles, for a suffix that is none.
absl::StatusOr<engine::ExecutionChoice> ChoiceNamed(const ServedModel& model, std::string_view name);

// Adds what a name chooses to a request's choice. Errors: INVALID_ARGUMENT naming the field that says otherwise.
absl::Status MergeChoice(const engine::ExecutionChoice& named, std::string_view name, const FieldNames& names,
                         engine::ExecutionChoice* choice);

// "name@flash-fp8", ... of every profile that the model supports.
std::vector<std::string> ProfileAliases(const ServedModel& model);

}  // namespace dunlin::server
