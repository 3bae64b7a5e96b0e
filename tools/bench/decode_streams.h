// SPDX-License-Identifier: Apache-2.0
// Streams that decode together through the engine that serves them.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/loop/engine.h"
#include "engine/request/types.h"

namespace dunlin::tools::bench {

// A steady clock, as Engine takes it.
engine::TimeNs StreamClock();

// Decoding while every stream does.
struct StreamsDecode {
  double tokens_per_s = 0.0;
  std::vector<engine::TokenId> tokens;  // of all streams
  int64_t drafted = 0;
  int64_t accepted = 0;
};

// Submits the requests at once and waits for their ends. Each ignores the end-of-sequence token. DATA_LOSS where one
// ends before its max_tokens; FAILED_PRECONDITION where they never decode together.
absl::StatusOr<StreamsDecode> DecodeStreams(const std::vector<engine::Request>& requests, engine::Engine* engine);

// REQUIRES: not empty.
double Median(std::vector<double> values);

}  // namespace dunlin::tools::bench
