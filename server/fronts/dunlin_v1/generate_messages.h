// SPDX-License-Identifier: Apache-2.0
// GenerateRequest -> ClientRequest, OutputChunk -> GenerateResponse. Pure functions, any thread.
#pragma once

#include "absl/status/status.h"
#include "dunlin/v1/generation.pb.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/record/client_request.h"

namespace dunlin::server {

// Moves the strings out of *wire. Errors: INVALID_ARGUMENT for a number outside its enum; everything else is in
// *request even then.
absl::Status GenerateRequestFromWire(v1::GenerateRequest* wire, ClientRequest* request);

// Overwrites *wire, reusing its memory.
void ChunkToWire(const OutputChunk& chunk, v1::GenerateResponse* wire);

}  // namespace dunlin::server
