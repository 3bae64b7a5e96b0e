// SPDX-License-Identifier: Apache-2.0
// What came of a step: the runtime fills it, the scheduler commits it. Reserved once and reused, as the plan is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/request/types.h"

namespace dunlin::engine {

// Of one SequenceStep. numerical_error: a row of its logits held NaN or nothing finite, so no token was drawn.
struct StepOutput {
  TokenOutput token;  // valid if sampled
  bool sampled = false;
  bool numerical_error = false;
};

// The score of the prompt token at `position`, given the tokens before it.
struct PromptScore {
  int32_t sequence_index = 0;  // in StepPlan::sequences
  int32_t position = 0;
  TokenOutput token;
};

struct StepResult {
  std::vector<StepOutput> outputs;         // [StepPlan::sequences]
  std::vector<PromptScore> prompt_scores;  // in ascending (sequence_index, position) order

  // Makes room for the result of any plan of so many sequences and computed tokens.
  void Reserve(int32_t max_sequences, int32_t max_tokens) {
    outputs.reserve(static_cast<size_t>(max_sequences));
    prompt_scores.reserve(static_cast<size_t>(max_tokens));
  }
  void Clear() {
    outputs.clear();
    prompt_scores.clear();
  }
};

}  // namespace dunlin::engine
