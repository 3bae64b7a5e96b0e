// Is a request one that this model can serve? Pure functions; any thread.
#pragma once

#include <array>
#include <cstdint>

#include "absl/status/status.h"
#include "engine/types.h"

namespace dunlin::engine {

// What a request is measured against; const after the engine's construction.
struct RequestLimits {
  int32_t vocab_size = 0;
  int32_t max_context_tokens = 0;                                  // prompt + output
  int64_t max_queued_tokens = 0;                                   // a longer prompt could never be queued
  int32_t num_pages = 0;                                           // of the KV pool
  std::array<int32_t, kernels::kNumPrecisions> tokens_per_page{};  // by precision; 0 where the model lacks it
};

// OK, or INVALID_ARGUMENT with the field's name on the wire, its value, and the limit:
// `sampling.top_p is 1.5; limit is (0, 1]`. The first wrong field is named.
absl::Status ValidateRequest(const Request& request, const RequestLimits& limits);

}  // namespace dunlin::engine
