// SPDX-License-Identifier: Apache-2.0
// What a caller's key allows of a request: the model, the priority, the attention backends and precisions, the cache.
// An anonymous caller may do everything. Refusals go to the audit log. Thread rule: any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/access/access_control.h"
#include "server/access/admission.h"
#include "server/models/repository.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_field.h"
#include "server/serving/record/client_request.h"
#include "server/serving/resolve/profile_alias.h"

namespace dunlin::server {

// The model of that name, or the one that has an adapter of that name; a profile may follow it (profile_alias.h). A key
// allows an adapter by the adapter's own name. Errors: NOT_FOUND, the same for what is unknown and what the caller may
// not use; UNAVAILABLE for a model that is known and not served; INVALID_ARGUMENT for a suffix that is no profile.
absl::StatusOr<NamedModel> FindFor(const ServingCore& core, const Principal& caller, std::string_view model);
// FindFor's model.
absl::StatusOr<ModelLease> LeaseFor(const ServingCore& core, const Principal& caller, std::string_view model);

// Every model that the caller may use, in the order in which they were loaded. What a front end tells of models it
// takes from here or from LeaseFor: of others the caller hears nothing.
std::vector<ModelLease> ModelsFor(const ServingCore& core, const Principal& caller);

// Errors of all below: PERMISSION_DENIED with field, value and what the key allows.
absl::Status CheckKeyPriority(const AccessControl& access, const ClientRequest& request);
// Of an embedding's or a generation's choice: what is named must be allowed.
absl::Status CheckKeyExecution(const AccessControl& access, const engine::ExecutionChoice& choice,
                               const Principal& caller, const FieldNames& names);

// Takes one request, and one of those at once, of the caller's quota; the ticket keeps them. Errors:
// RESOURCE_EXHAUSTED.
absl::Status BeginQuota(const ServingCore& core, const Principal& caller, Admission::Ticket* ticket);
// Takes one of the requests in flight of the caller's share; the ticket, which has a place, keeps it. Errors: as above.
absl::Status TakeShare(const ServingCore& core, const Principal& caller, Admission::Ticket* ticket);
// Both.
absl::Status BeginRequest(const ServingCore& core, const Principal& caller, Admission::Ticket* ticket);
// Reserves the tokens that a request may use, which is settled when they are known. Errors: RESOURCE_EXHAUSTED.
absl::Status ReserveTokens(const ServingCore& core, const Principal& caller, int64_t tokens, Admission::Ticket* ticket);

// The salt of the caller's prefixes in the cache: of two callers with different names it is never equal, whatever they
// ask for. An anonymous caller's is what it asks for.
std::string CacheSaltOf(const Principal& caller, const std::string& asked);

}  // namespace dunlin::server
