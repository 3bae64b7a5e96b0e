// SPDX-License-Identifier: Apache-2.0
// What a plan copies of a sequence: borrowed while the plan is filled, so that a plan can be made of a scheduler's
// sequences, or of a few vectors where there is no scheduler (calibration, warm-up, benchmarks).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "engine/plan/step_plan.h"

namespace dunlin::engine {

// StepState, of cuts that are not in the plan yet.
struct StateView {
  int32_t slot = 0;
  int32_t copied_from = -1;
  std::span<const StateCut> cuts = {};
};

struct SequenceView {
  RequestId request_id = 0;
  int32_t sequence_slot = 0;
  std::span<const TokenId> tokens = {};  // all that are known: prompt, then output so far; then the drafts
  int32_t prompt_len = 0;
  const PromptRows* rows = nullptr;    // of the prompt's row tokens; null: it has none; outlives the step
  std::span<const PageId> pages = {};  // [page sets, KvGroups::count()] in order of position
  const SamplingParams& sampling;
  const StoppingParams& stopping;
  std::span<const TokenCount> counts = {};  // of the tokens; REQUIRED where a penalty applies
  int32_t output_index = 0;
  StateView state = {};                                 // of a recurrent model
  int32_t next_scored_position = 1;                     // with prompt_logprobs: those before it are not scored again
  std::span<const TokenId> eos_token_ids = {};          // of the model
  std::shared_ptr<ConstrainedOutput> constrained = {};  // null: any token may be drawn
  const Adapter* adapter = nullptr;                     // null: the base; outlives the step
};

// The share of a step that a sequence gets.
struct StepShare {
  int32_t first_position = 0;
  int32_t num_tokens = 0;  // >= 1, without drafts
  bool samples = false;
  int32_t num_drafts = 0;  // the last of SequenceView::tokens; 0 unless it samples
  int32_t drawn_by = -1;   // SequenceStep::drawn_by; >= 0 for one token, which samples
};

// Fills *step, one of plan->sequences, from a sequence and its share, and appends to the plan's arrays. REQUIRES: the
// share lies within the known tokens; if it samples, it ends with the last of them.
void FillStep(const SequenceView& sequence, const StepShare& share, SequenceStep* step, StepPlan* plan);

// Appends a sequence to the last sub-batch, which has this profile or is started. For plans made without a scheduler:
// sequences that decode come before those in their prompts.
void AppendSequence(const ExecutionProfile& profile, const SequenceView& sequence, const StepShare& share,
                    StepPlan* plan);

}  // namespace dunlin::engine
