// SPDX-License-Identifier: Apache-2.0
// From a client's embedding request to a call that the encoder will take: model, bounds, tokens, profile.
// Thread rule: any thread; takes time linear in the inputs.
#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/encoder/encode_call.h"
#include "server/serving/client_request.h"
#include "server/serving/request_record.h"
#include "server/serving/serving_core.h"

namespace dunlin::server {

struct EmbedPlan {
  ModelLease model;
  std::unique_ptr<engine::EncodeCall> call;  // checked, with room for its vectors; arrival and deadline not set
  std::vector<bool> truncated;               // by input
};

// Resolves the model, checks every field against its bounds, tokenises the inputs and resolves the profile. Fills what
// it learns into *record, also when it then refuses. REQUIRES: the request's id is resolved. Errors: as PlanGeneration.
absl::StatusOr<EmbedPlan> PlanEmbed(ClientEmbedRequest request, const ServingCore& core, RequestRecord* record);

}  // namespace dunlin::server
