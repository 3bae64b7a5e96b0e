// SPDX-License-Identifier: Apache-2.0
// `dunlin bench model --speculation`: what guesses give a batch of streams, or cost it.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/request/types.h"
#include "tools/bench/options.h"
#include "tools/bench/session.h"

namespace dunlin::tools::bench {

// Of --speculation: Request::max_drafts, or 0, which asks for another bench.
int32_t MaxDraftsOf(const BenchOptions& options);

struct SpeculationCase {
  std::string name;
  const engine::Model* model;
  engine::ExecutionProfile profile;
  int32_t batch;  // streams
};

// Adds two records, phase "speculation": of prompts that repeat a phrase, drawn greedily, and of random ones, drawn at
// temperature 1. against_plain is the median over pairs of runs of the rate's ratio to that without guesses,
// processor_against_plain that of the processor time. DATA_LOSS where a stream ends before --new-tokens, or where a
// guess has changed a token.
absl::Status BenchSpeculation(Session* session, const SpeculationCase& which);

}  // namespace dunlin::tools::bench
