// SPDX-License-Identifier: Apache-2.0
// `dunlin bench model --grammar`: what a grammar costs a batch of streams.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/request/types.h"
#include "tools/bench/session.h"

namespace dunlin::tools::bench {

struct GrammarCase {
  std::string name;
  const engine::Model* model;
  engine::ExecutionProfile profile;
  int32_t batch;  // streams
};

// Adds one record, phase "grammar": the rate of constrained decoding, and against_unconstrained, the median over pairs
// of runs of its ratio to the unconstrained rate. DATA_LOSS where a stream ends before --new-tokens.
absl::Status BenchGrammar(Session* session, const GrammarCase& which);

}  // namespace dunlin::tools::bench
