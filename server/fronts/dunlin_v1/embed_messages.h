// SPDX-License-Identifier: Apache-2.0
// EmbedRequest and RerankRequest -> ClientEmbedRequest, EmbedResult -> EmbedResponse and RerankResponse. Pure
// functions, any thread.
#pragma once

#include "absl/status/status.h"
#include "dunlin/v1/embedding.pb.h"
#include "engine/encoder/encode_call.h"
#include "server/serving/output/response_writer.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// Moves the strings out of *wire. Errors: INVALID_ARGUMENT for a number outside its enum; everything else is in
// *request even then.
absl::Status EmbedRequestFromWire(v1::EmbedRequest* wire, ClientEmbedRequest* request);

v1::Pooling ToWire(engine::Pooling pooling);

// Everything except request_id.
v1::EmbedResponse EmbedResultToWire(const EmbedResult& result);

// The same of a rerank call. REQUIRES: result.rerank is not null.
absl::Status RerankRequestFromWire(v1::RerankRequest* wire, ClientEmbedRequest* request);
v1::RerankResponse RerankResultToWire(const EmbedResult& result, bool request_order);

}  // namespace dunlin::server
