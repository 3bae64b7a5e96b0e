// SPDX-License-Identifier: Apache-2.0
// GenerateRequest -> ClientRequest; log-probabilities and finish reasons to wire. Pure functions, any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/record/client_request.h"
#include "smg/vllm_engine.pb.h"

namespace dunlin::server {

namespace vllm_engine = ::vllm::grpc::engine;

// An unsigned number of the wire as a signed one; those that do not fit are the largest.
int32_t Signed(uint32_t value);
std::vector<engine::TokenId> TokenIdsFromWire(const google::protobuf::RepeatedField<uint32_t>& wire);

// Everything but the model; moves the strings out of *wire. Errors: INVALID_ARGUMENT naming a field that this server
// does not support, or a number beyond int32. What could be read is in *request even then.
absl::Status GenerateRequestFromWire(vllm_engine::GenerateRequest* wire, ClientRequest* request);

// Appends the tokens' entries.
void AppendLogprobs(const TokenLogprobs& logprobs, vllm_engine::OutputLogProbs* wire);
// The same for tokens of the prompt. first_token: of the prompt, which has no log-probability; used while *wire is
// empty.
void AppendPromptLogprobs(const TokenLogprobs& logprobs, engine::TokenId first_token, vllm_engine::InputLogProbs* wire);

}  // namespace dunlin::server
