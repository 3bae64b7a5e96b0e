// SPDX-License-Identifier: Apache-2.0
// Resolves what a client names: the request id, the model, the execution profile. Results are stored in *record, also
// if the request is then refused. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "engine/runtime/profiles.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/request_record.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server {

// What the steps of one call share. What it refers to outlives it.
struct CallContext {
  const ServingCore& core;
  const Principal& caller;
  const FieldNames& names;  // of the front end's messages
  RequestRecord* record;
};

// The client's id, or a generated one. Errors: INVALID_ARGUMENT.
absl::Status ResolveRequestId(std::string_view request_id, const FieldNames& names, RequestRecord* record);

// INVALID_ARGUMENT for a request that names no model.
absl::Status CheckModelName(std::string_view name, const FieldNames& names);

// The model, and the adapter of it if the name is an adapter's. The profile that the name chooses (profile_alias.h)
// joins *execution. Errors: INVALID_ARGUMENT (no model is named, a suffix that is no profile, or one that *execution
// contradicts), NOT_FOUND (also for a model that the caller may not use).
absl::StatusOr<NamedModel> ResolveModel(const CallContext& call, const std::string& name,
                                        engine::ExecutionChoice* execution);

// FAILED_PRECONDITION if the model is an encoder, or a decoder, or not a cross-encoder: a sequence classifier of one
// label whose tokenizer has a form for pairs of texts.
absl::Status CheckGenerates(const ServedModel& model);
absl::Status CheckEmbeds(const ServedModel& model);
absl::Status CheckReranks(const ServedModel& model);

// Within what the caller's key allows: AUTO and a fallback take none of the others, and a precision that is not named
// is the first of the model's that is allowed. Errors: PERMISSION_DENIED (key_limits.h), FAILED_PRECONDITION with every
// reason in the profile table why the choice is not supported.
absl::StatusOr<engine::ExecutionProfile> ResolveProfile(const CallContext& call, const ServedModel& model,
                                                        const engine::ExecutionChoice& choice);

// Of a request that asks for its model to be in memory and for nothing else: whether one for text or vectors could run.
// check_kind: CheckGenerates or CheckEmbeds. The record's finish reason becomes "load". Errors: those of ResolveModel,
// check_kind and ResolveProfile.
absl::Status CheckLoadedModel(const CallContext& call, const std::string& name,
                              absl::Status (*check_kind)(const ServedModel&), engine::ExecutionChoice* execution);

}  // namespace dunlin::server
