// SPDX-License-Identifier: Apache-2.0
// The tokens of a rerank call: the query with each document. For the text pool: takes time linear in the texts.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/encoder/encode_call.h"
#include "server/models/served_model.h"
#include "server/serving/core/serving_core.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// Appends the pairs to request->tokens, lengths and first_lengths, and to *truncated whether each lost tokens.
// REQUIRES: client.rerank, CheckReranks(model). INVALID_ARGUMENT names the query or the document that is too long, or
// that cannot be tokenised.
absl::Status TokenisePairs(const ServingCore& core, const ServedModel& model, const ClientEmbedRequest& client,
                           engine::EncodeRequest* request, std::vector<bool>* truncated);

}  // namespace dunlin::server
