// Is a call one that this encoder can serve? Pure functions; any thread.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "engine/encoder/encode_call.h"

namespace dunlin::engine {

// What a call is measured against; const after the engine's construction.
struct EncodeLimits {
  int32_t vocab_size = 0;
  int32_t hidden_dim = 0;
  int32_t max_input_tokens = 0;   // of one input
  int64_t max_queued_tokens = 0;  // of one call: a longer one could never be queued
};

// OK, or INVALID_ARGUMENT with the field's name on the wire, its value, and the limit. The first wrong field is named.
absl::Status ValidateEncode(const EncodeRequest& request, const EncodeLimits& limits);

// "inputs[3] has 600 tokens; limit is 1 to 512 (models[].max_context_tokens)"
absl::Status CheckInputLength(size_t input, int64_t num_tokens, const EncodeLimits& limits);

}  // namespace dunlin::engine
