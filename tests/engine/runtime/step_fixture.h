// Sequences and plans for the tests of StepInputs and ForwardPass.
#pragma once

#include <memory>
#include <vector>

#include "engine/runtime/step_plan.h"

namespace dunlin::engine {

// A plan of one sub-batch that owns its sequences.
class PlanBuilder {
 public:
  explicit PlanBuilder(ExecutionProfile profile) { plan_.sub_batches.push_back({.profile = profile}); }

  // Tokens first .. first + count - 1 of a sequence whose token at position p is base + p, and whose pages are given.
  Sequence* Add(TokenId base, int32_t prompt_len, int32_t first, int32_t count, std::vector<PageId> pages,
                bool samples) {
    auto sequence = std::make_unique<Sequence>();
    for (int32_t p = 0; p < first + count; ++p) sequence->tokens.push_back(base + p);
    for (int32_t p = first + count; p < prompt_len; ++p) sequence->tokens.push_back(base + p);
    sequence->prompt_len = prompt_len;
    sequence->pages = std::move(pages);
    plan_.sequences.push_back(
        {.sequence = sequence.get(), .first_position = first, .num_tokens = count, .samples = samples});
    plan_.num_tokens += count;
    plan_.sub_batches[0].num_tokens += count;
    ++plan_.sub_batches[0].num_sequences;
    if (first >= prompt_len) plan_.sub_batches[0].num_decode_tokens += count;
    sequences_.push_back(std::move(sequence));
    return sequences_.back().get();
  }

  const StepPlan& plan() const { return plan_; }
  const SubBatch& batch() const { return plan_.sub_batches[0]; }

 private:
  StepPlan plan_;
  std::vector<std::unique_ptr<Sequence>> sequences_;
};

}  // namespace dunlin::engine
