// What one step computes, and what came out: the contract between scheduler and runtime. Vectors are reserved at start
// and reused; filling a plan or a result does not allocate.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scheduler/sequence.h"
#include "engine/types.h"

namespace dunlin::engine {

// One sequence's share: tokens [first_position, first_position + num_tokens) of sequence->tokens. Their pages are in
// sequence->pages already. When `samples`, the last of them is the last known token and the next one is drawn.
struct SequenceStep {
  Sequence* sequence = nullptr;
  int32_t first_position = 0;
  int32_t num_tokens = 0;  // >= 1
  bool samples = false;
  // Bit i % 32 of word i / 32: token i may be drawn (a grammar's mask); null allows all. Valid until Collect.
  const uint32_t* allowed_tokens = nullptr;
};

// Sequences of one profile, contiguous in StepPlan::sequences: those that decode, then those in their prompts.
// Sub-batches run one after another, in this order.
struct SubBatch {
  ExecutionProfile profile;
  int32_t first_sequence = 0;
  int32_t num_sequences = 0;
  int32_t num_tokens = 0;
  int32_t num_decode_tokens = 0;  // the first of its tokens that lie behind their prompts
};

struct StepPlan {
  std::vector<SubBatch> sub_batches;
  std::vector<SequenceStep> sequences;
  int32_t num_tokens = 0;
  bool empty() const { return sequences.empty(); }
  void Clear() {
    sub_batches.clear();
    sequences.clear();
    num_tokens = 0;
  }
};

// The drawn token of one SequenceStep. numerical_error: the logits row held NaN or nothing finite; no token was drawn.
struct StepOutput {
  TokenOutput token;
  bool sampled = false;
  bool numerical_error = false;
};

// A score of prompt token `position`, given the tokens before it.
struct PromptScore {
  int32_t sequence_index = 0;
  int32_t position = 0;
  TokenOutput token;
};
// outputs[i] belongs to plan.sequences[i]; prompt_scores are in ascending (sequence_index, position) order.
struct StepResult {
  std::vector<StepOutput> outputs;
  std::vector<PromptScore> prompt_scores;
  void Clear() {
    outputs.clear();
    prompt_scores.clear();
  }
};

}  // namespace dunlin::engine
