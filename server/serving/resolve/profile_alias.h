// SPDX-License-Identifier: Apache-2.0
// What a request's model name stands for: a model, or a LoRA adapter of one, and a profile: "name@BACKEND-PRECISION",
// "name@BACKEND" and "name@PRECISION" stand for "name" with that attention backend and precision, in every protocol:
// routers drop the fields that would say so. A model whose own name is the whole text comes first, then an adapter.
// ":latest" at the end, the tag that Ollama's clients add to names and take from one API to another, says nothing.
// Pure but for the lease, any thread.
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

// A served model as a request names it.
struct NamedModel {
  ModelLease model;              // null: nothing that is served has the name
  engine::AdapterLease adapter;  // of the model; none if the name is the model's own
  std::string name;              // the model's, or the adapter's: without a profile
};

// The model that a name stands for, whatever suffix it has.
NamedModel FindNamed(const ServingCore& core, std::string_view name);

// The same of a model that may not be served.
struct KnownModel {
  std::string model;  // its own name; the whole text if the server knows none
  std::string name;   // the model's, or the adapter's
};
KnownModel FindKnown(const ServingCore& core, std::string_view name);
// Whether what `name` has behind the known name is a profile, or nothing.
bool HasProfileOrNone(const KnownModel& known, std::string_view name);

// What the suffix of a name chooses; nothing if there is none. REQUIRES: model is what FindNamed found for the name.
// Errors: INVALID_ARGUMENT, with the model's profiles, for a suffix that is none.
absl::StatusOr<engine::ExecutionChoice> ChoiceNamed(const NamedModel& model, std::string_view name);

// Adds what a name chooses to a request's choice. Errors: INVALID_ARGUMENT naming the field that says otherwise.
absl::Status MergeChoice(const engine::ExecutionChoice& named, std::string_view name, const FieldNames& names,
                         engine::ExecutionChoice* choice);

// "name@flash-fp8", ... of every profile that the model supports. name: the model's, or that of an adapter of it.
std::vector<std::string> ProfileAliases(const ServedModel& model, std::string_view name);

}  // namespace dunlin::server
