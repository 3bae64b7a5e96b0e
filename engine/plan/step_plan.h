// SPDX-License-Identifier: Apache-2.0
// What one step computes: the scheduler fills it, the runtime runs it. A plan is a value: it holds copies of all that
// the runtime reads but rows of images, in arrays that are reserved once and reused, so that filling one allocates
// nothing. One thing is not known yet when it is made: the masks of constrained outputs, which are computed while the
// layers are. The plan shares those outputs with their sequences.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "engine/cache/page.h"
#include "engine/request/types.h"
#include "engine/sampling/constrained_output.h"
#include "engine/sampling/token_counts.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// Elements [first, first + count) of one of the arrays of StepPlan.
struct PlanRange {
  int32_t first = 0;
  int32_t count = 0;
};

// Where the state of a recurrent model's sequence lies in a step. A slot that a step writes is one sequence's; one that
// is only copied from may be several sequences'.
struct StepState {
  int32_t slot = 0;          // the state before first_position, which the step's rows change; not read at position 0
  int32_t copied_from = -1;  // the slot whose state is copied into `slot` before the step; -1: it is there
  PlanRange cuts = {};       // of StepPlan::state_cuts, in ascending order
};

// The state at `position` stays in the slot that the rows before it changed, and rows from there on change a copy of it
// in `slot`: where the prefix cache keeps one, and in front of every draft, behind which a state has no way back.
struct StateCut {
  int32_t position = 0;  // in (first_position, first_position + num_tokens)
  int32_t slot = -1;
};

// The draw behind a draft token: what it bans differs from the draws before it, because the tokens do.
struct DraftRow {
  PlanRange banned = {};  // of StepPlan::banned
};

// One sequence's share of a step: the tokens at positions [first_position, first_position + num_tokens). Their K and V
// go to the sequence's pages; attention reads every position before them from there. The last ones may be drafts,
// guesses at tokens not drawn yet: then the step samples, and every draft gives a row that draws the token after it.
// Draw i counts as long as the draws before it gave the drafts; K and V of drafts that do not count are written again.
struct SequenceStep {
  RequestId request_id = 0;
  int32_t sequence_slot = 0;  // Sequence::slot; means nothing to a runtime
  StepState state;            // of a recurrent model
  int32_t output_index = 0;   // Request::output_index; already part of row.seed
  int32_t first_position = 0;
  int32_t num_tokens = 0;  // >= 1, drafts included
  int32_t prompt_len = 0;  // positions from here on are output
  // Whether the last of the tokens but drafts is the last known one, so that the next one is drawn from its logits.
  bool samples = false;
  // Index among StepPlan::sequences of the step before, whose draw is the only one of `tokens`, where that step is in
  // flight and its draw is not known (the token in `tokens` means nothing then); -1: the tokens are known.
  int32_t drawn_by = -1;
  const Adapter* adapter = nullptr;  // of all its rows; null: the base. The sequence's lease keeps it
  // Where the tokens lie in the prompt: what its row tokens stand for; null: it has none. The sequence's request keeps
  // it.
  const PromptRows* rows = nullptr;
  int32_t position_shift = 0;  // PositionShift of the prompt's rows at first_position
  PlanRange tokens = {};       // of StepPlan::tokens: the num_tokens tokens, and the one after them if it is scored
  // Of StepPlan::pages, [page sets, KvGroups::count()]: those of positions [0, first_position + num_tokens), in order,
  // or more. kNoPage for pages behind the window of a sliding group, which no row of the step reads.
  PlanRange pages = {};

  // Prompt positions [first_scored, first_scored + num_scored), each scored by the logits of the position before it.
  int32_t first_scored = 0;
  int32_t num_scored = 0;
  int32_t prompt_logprobs = -1;  // SamplingParams::prompt_logprobs

  PlanRange draft_rows = {};  // of StepPlan::draft_rows, one for each draft
  int32_t num_drafts() const { return draft_rows.count; }
  int32_t num_known() const { return num_tokens - draft_rows.count; }

  // The parameters of the first draw, at position first_position + num_known(), set whether it samples or not.
  // row.edits is left for the runtime to write, from the ranges below; they are empty unless it samples.
  kernels::SampleRow row = {};
  PlanRange biases = {};  // of StepPlan::biases
  PlanRange counts = {};  // of StepPlan::counts: of the known tokens; empty when no penalty applies
  PlanRange banned = {};  // of StepPlan::banned: tokens that must not be drawn yet
  PlanRange mask = {};    // of StepPlan::masks: the allowed_token_ids, or none, which allows all
  // Of StepPlan::constraints, if it samples under one; -1: none.
  int32_t constraint = -1;
};

// Sequences of one profile, contiguous in StepPlan::sequences: first those that decode, then those in their prompts.
// Sub-batches run one after another, in this order.
struct SubBatch {
  ExecutionProfile profile;
  int32_t first_sequence = 0;
  int32_t num_sequences = 0;
  int32_t num_tokens = 0;
  int32_t num_decode_tokens = 0;  // the leading ones of num_tokens, which lie beyond their prompts
};

// What the largest plan holds.
struct StepPlanLimits {
  int32_t max_sequences = 0;
  int32_t max_tokens = 0;  // computed in the step
  int32_t max_draft_rows = 0;
  int32_t max_context_tokens = 0;
  int32_t max_pages_per_sequence = 0;  // of all groups
  int32_t num_eos_token_ids = 0;
  int32_t vocab_size = 0;
};

struct StepPlan {
  std::vector<SubBatch> sub_batches;
  std::vector<SequenceStep> sequences;
  std::vector<DraftRow> draft_rows;
  std::vector<StateCut> state_cuts;
  int32_t num_tokens = 0;  // of all sub-batches
  TimeNs planned = 0;      // when the plan was made; means nothing to a runtime

  // Ranges of SequenceStep index these.
  std::vector<TokenId> tokens;
  std::vector<PageId> pages;
  std::vector<std::pair<TokenId, float>> biases;
  std::vector<TokenCount> counts;
  std::vector<TokenId> banned;
  std::vector<uint32_t> masks;
  std::vector<std::shared_ptr<ConstrainedOutput>> constraints;
  int32_t mask_words = 0;  // of one mask, set by Reserve

  // Makes room for any plan within the limits. The arrays for edits have their worst case, some kilobytes a sequence
  // and its whole context; memory that no plan has touched is not resident.
  void Reserve(const StepPlanLimits& limits);
  void Clear();

  bool empty() const { return sequences.empty(); }
  std::span<const TokenId> TokensOf(const SequenceStep& step) const { return In(tokens, step.tokens); }
  std::span<const TokenId> DraftsOf(const SequenceStep& step) const {
    return TokensOf(step).subspan(static_cast<size_t>(step.num_known()), static_cast<size_t>(step.num_drafts()));
  }
  std::span<const PageId> PagesOf(const SequenceStep& step) const { return In(pages, step.pages); }
  std::span<const StateCut> StateCutsOf(const SequenceStep& step) const { return In(state_cuts, step.state.cuts); }
  std::span<const std::pair<TokenId, float>> BiasesOf(const SequenceStep& step) const {
    return In(biases, step.biases);
  }
  std::span<const TokenCount> CountsOf(const SequenceStep& step) const { return In(counts, step.counts); }
  std::span<const TokenId> BannedOf(const SequenceStep& step) const { return In(banned, step.banned); }
  // Of draw `draw`, 0 for the one behind the known tokens.
  std::span<const TokenId> BannedOf(const SequenceStep& step, int32_t draw) const {
    if (draw == 0) return BannedOf(step);
    return In(banned, draft_rows[static_cast<size_t>(step.draft_rows.first + draw - 1)].banned);
  }
  std::span<const uint32_t> MaskOf(const SequenceStep& step) const { return In(masks, step.mask); }

  // The masks of the constrained rows, which a runtime asks for when it is about to sample. Those that no other thread
  // has begun to compute are computed here, the last first, because the mask thread begins with the first.
  bool has_grammar_masks() const;
  void FinishGrammarMasks() const;
  // Of draw `draw`; empty, which allows all, without a constraint, and for a draw that cannot count. REQUIRES:
  // has_grammar_masks(), and the constraint has taken no draw of the step.
  std::span<const uint32_t> GrammarMaskOf(const SequenceStep& step, int32_t draw = 0) const;
  // Whether draw `draw` may give no token, whatever the logits are: the two masks and the banned tokens leave none.
  // REQUIRES: a constraint that has taken the draws before it, and has_grammar_masks().
  bool AllowsNothing(const SequenceStep& step, int32_t draw = 0) const;

 private:
  template <typename T>
  static std::span<const T> In(const std::vector<T>& array, PlanRange range) {
    return std::span(array).subspan(static_cast<size_t>(range.first), static_cast<size_t>(range.count));
  }
};

}  // namespace dunlin::engine
