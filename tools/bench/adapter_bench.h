// SPDX-License-Identifier: Apache-2.0
// `dunlin bench model --adapters N`: what low-rank adapters cost a batch of streams.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "engine/model/model.h"
#include "engine/request/types.h"
#include "tools/bench/session.h"

namespace dunlin::tools::bench {

struct AdapterCase {
  std::string name;
  const engine::Model* model;
  engine::ExecutionProfile profile;
  int32_t batch;  // streams
};

// For each number N of --adapters, where stream i has adapter i % N, adds one record, phase "adapters": the rate of
// decoding with adapters of --rank on every projection, random BF16 matrices, and against_base, the median over pairs
// of steps of its ratio to the rate without. DATA_LOSS where logits are not finite.
absl::Status BenchAdapters(Session* session, const AdapterCase& which);

}  // namespace dunlin::tools::bench
