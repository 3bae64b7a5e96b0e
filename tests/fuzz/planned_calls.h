// SPDX-License-Identifier: Apache-2.0
// What front ends make of a message goes on as a served call does: into the serving core's plan, up to engine::Request
// and EncodeCall. The models are those of tests/server/serving/test_models.h, without keys. Thread rule: one thread.
#pragma once

#include "absl/status/status.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_request.h"

namespace dunlin::fuzz {

// Made at the first call.
server::ServingCore& Core();

// Plans the request; one for a model that is not there is planned for one that is. What is planned is within the bounds
// of the engine. read: what reading the message came to; an error is the call's end. Returns the status of the call.
absl::Status Plan(const absl::Status& read, server::ClientRequest request);
absl::Status Plan(const absl::Status& read, server::ClientEmbedRequest request);

// The body of an error is JSON.
void CheckErrorBody(const std::string& body);

}  // namespace dunlin::fuzz
