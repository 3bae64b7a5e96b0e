// SPDX-License-Identifier: Apache-2.0
// What came of a step: the runtime fills it, the scheduler commits it. Reserved once and reused, as the plan is.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/plan/step_plan.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// Of one draw. numerical_error: a row of its logits held NaN or nothing finite, so no token was drawn.
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
  std::vector<StepOutput> outputs;         // [StepPlan::sequences]: of the first draw
  std::vector<StepOutput> draft_outputs;   // [StepPlan::draft_rows]: of the draws behind drafts
  std::vector<PromptScore> prompt_scores;  // in ascending (sequence_index, position) order

  // Of draw `draw` of a sequence of the plan, 0 for the first.
  const StepOutput& OutputOf(const StepPlan& plan, size_t sequence_index, size_t draw) const {
    if (draw == 0) return outputs[sequence_index];
    return draft_outputs[static_cast<size_t>(plan.sequences[sequence_index].draft_rows.first) + draw - 1];
  }

  // Makes room for the result of any plan of so many sequences and computed tokens.
  void Reserve(int32_t max_sequences, int32_t max_tokens) {
    outputs.reserve(static_cast<size_t>(max_sequences));
    draft_outputs.reserve(static_cast<size_t>(max_tokens));
    prompt_scores.reserve(static_cast<size_t>(max_tokens));
  }
  void Clear() {
    outputs.clear();
    draft_outputs.clear();
    prompt_scores.clear();
  }
};

}  // namespace dunlin::engine
