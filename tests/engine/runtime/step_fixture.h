// SPDX-License-Identifier: Apache-2.0
// Plans for the tests of StepInputs and ForwardPass.
#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "engine/plan/sequence_view.h"

namespace dunlin::engine {

// One sequence of a plan, as its owner would hold it.
struct PlannedSequence {
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  int32_t prompt_len = 0;
  const PromptRows* rows = nullptr;
  int32_t next_scored_position = 1;
  SamplingParams sampling;
  StateView state;
  StepShare share;
};

// A plan of one sub-batch.
class PlanBuilder {
 public:
  explicit PlanBuilder(ExecutionProfile profile) : profile_(profile) {}

  // Tokens first .. first + count - 1 of a sequence whose token at position p is base + p, and whose pages are given.
  // The sequence may be changed until the plan is taken.
  PlannedSequence* Add(TokenId base, int32_t prompt_len, int32_t first, int32_t count, std::vector<PageId> pages,
                       bool samples) {
    auto sequence = std::make_unique<PlannedSequence>();
    for (int32_t p = 0; p < std::max(first + count, prompt_len); ++p) sequence->tokens.push_back(base + p);
    sequence->pages = std::move(pages);
    sequence->prompt_len = prompt_len;
    sequence->share = {.first_position = first, .num_tokens = count, .samples = samples};
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }

  StepPlan plan() const {
    StepPlan plan;
    for (const auto& sequence : sequences_) {
      AppendSequence(profile_,
                     {.tokens = sequence->tokens,
                      .prompt_len = sequence->prompt_len,
                      .rows = sequence->rows,
                      .pages = sequence->pages,
                      .sampling = sequence->sampling,
                      .stopping = {},
                      .state = sequence->state,
                      .next_scored_position = sequence->next_scored_position},
                     sequence->share, &plan);
    }
    return plan;
  }

 private:
  ExecutionProfile profile_;
  std::vector<std::unique_ptr<PlannedSequence>> sequences_;
};

}  // namespace dunlin::engine
