// SPDX-License-Identifier: Apache-2.0
// vllm.GenerateRequest as a request of the serving core. Every field is taken over, or refused by its name; the bounds
// of values are the core's. Pure functions, any thread.
#pragma once

#include <vector>

#include "absl/status/status.h"
#include "engine/request/types.h"
#include "server/serving/record/client_request.h"
#include "vllm/inference.pb.h"

namespace dunlin::server {

// What of a response was asked for, beyond what the core gives.
struct VllmResponseFields {
  bool prompt_logprobs = false;
  bool output_text = true;
  bool output_token_ids = false;
  std::vector<engine::TokenId> stop_token_ids;  // of the request: another one that ends an output is the model's own
};

// streams: several outputs, for which Generate's one response has no room, are allowed.
// Consumes *wire. Errors: INVALID_ARGUMENT, naming a field that is not supported, or a value that the core cannot
// represent; *request then holds what could be read.
absl::Status VllmRequestFromWire(::vllm::GenerateRequest* wire, bool streams, ClientRequest* request,
                                 VllmResponseFields* fields);

}  // namespace dunlin::server
