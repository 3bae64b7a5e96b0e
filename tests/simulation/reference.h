// SPDX-License-Identifier: Apache-2.0
// What a request must answer: the fake model run alone, without pages, batches or a scheduler. The oracle.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/request/kv_groups.h"
#include "engine/request/types.h"

namespace dunlin::simulation {

// The end of sequence, in all tests against the fake model.
inline constexpr engine::TokenId kEos = 0;

struct Answer {
  std::vector<engine::TokenId> tokens;
  std::vector<float> prompt_scores;
  engine::FinishReason reason = engine::FinishReason::kLength;
};

// The fake model, as FakeRuntimeOptions has it.
struct ReferenceModel {
  int32_t vocab_size = 50;
  engine::KvGroups groups = {};
  bool decode_differs = false;
  uint64_t version = 0;
  bool faults = true;  // false: no position is poisoned
};

Answer RunAlone(const engine::Request& request, const std::vector<engine::TokenId>& eos_token_ids,
                const ReferenceModel& model);

}  // namespace dunlin::simulation
