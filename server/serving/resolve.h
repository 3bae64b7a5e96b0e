// SPDX-License-Identifier: Apache-2.0
// From what a client names to what serves it: the request's id, the model, the execution profile. What is learnt goes
// into *record, also when the request is then refused. Any thread.
#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request_field.h"
#include "engine/runtime/profiles.h"
#include "engine/types.h"
#include "server/serving/request_record.h"
#include "server/serving/serving_core.h"

namespace dunlin::server {

// The client's id, or a drawn one. Errors: INVALID_ARGUMENT.
absl::Status ResolveRequestId(std::string_view request_id, const engine::FieldNames& names, RequestRecord* record);

// Errors: INVALID_ARGUMENT (none is named), NOT_FOUND.
absl::StatusOr<ModelLease> ResolveModel(const ServingCore& core, const std::string& name,
                                        const engine::FieldNames& names, RequestRecord* record);

// FAILED_PRECONDITION when the model is an encoder, or a decoder.
absl::Status CheckGenerates(const ServedModel& model);
absl::Status CheckEmbeds(const ServedModel& model);

// Errors: FAILED_PRECONDITION with every reason that the profile table gives against the choice.
absl::StatusOr<engine::ExecutionProfile> ResolveProfile(const engine::ProfileTable& table,
                                                        const engine::ExecutionChoice& choice, RequestRecord* record);

}  // namespace dunlin::server
