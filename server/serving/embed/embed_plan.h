// SPDX-License-Identifier: Apache-2.0
// Turns a client's embedding or rerank request into a call for the encoder: model, bounds, tokens, profile.
// Thread rule: any thread; takes time linear in the size of the inputs.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/encoder/encode_call.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"
#include "server/serving/record/request_record.h"

namespace dunlin::server {

struct EmbedPlan {
  ModelLease model;
  std::unique_ptr<engine::EncodeCall> call;  // valid, with memory for its vectors; arrival and deadline unset
  std::vector<bool> truncated;               // by input
  std::optional<RerankScores> rerank;        // of a rerank call
};

// Resolves the model, checks every field against its bounds, tokenises the inputs and resolves the profile. Fills in
// *record as far as it gets, also on error. REQUIRES: the request's id is resolved. Errors: as PlanGeneration.
absl::StatusOr<EmbedPlan> PlanEmbed(ClientEmbedRequest request, const ServingCore& core, RequestRecord* record);

}  // namespace dunlin::server
