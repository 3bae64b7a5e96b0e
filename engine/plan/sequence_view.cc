// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/sequence_view.h"

#include <algorithm>

#include "engine/base/check.h"
#include "engine/request/image_positions.h"
#include "engine/sampling/banned_tokens.h"
#include "engine/sampling/sample_rows.h"

namespace dunlin::engine {
namespace {

template <typename T>
PlanRange Append(std::span<const T> elements, std::vector<T>* array) {
  const PlanRange range{static_cast<int32_t>(array->size()), static_cast<int32_t>(elements.size())};
  array->insert(array->end(), elements.begin(), elements.end());
  return range;
}

// A position is scored by the row before it, so the token after the share can be scored too.
void FillScores(const SequenceView& sequence, SequenceStep* step) {
  step->prompt_logprobs = sequence.sampling.prompt_logprobs;
  if (step->prompt_logprobs < 0) return;
  const int32_t end = std::min(step->first_position + step->num_tokens, sequence.prompt_len - 1) + 1;
  step->first_scored = std::max(sequence.next_scored_position, step->first_position + 1);
  step->num_scored = std::max(0, end - step->first_scored);
}

PlanRange AppendMask(std::span<const TokenId> allowed, StepPlan* plan) {
  if (allowed.empty()) return {};
  DUNLIN_CHECK(plan->mask_words > 0, "the plan does not know the length of a mask");
  const PlanRange range{static_cast<int32_t>(plan->masks.size()), plan->mask_words};
  plan->masks.resize(plan->masks.size() + static_cast<size_t>(plan->mask_words), 0U);
  uint32_t* mask = plan->masks.data() + range.first;
  for (const TokenId id : allowed) mask[id / 32] |= 1U << (id % 32);
  return range;
}

PlanRange AppendBannedAfter(std::span<const TokenId> tokens, const SequenceView& sequence, StepPlan* plan) {
  const auto first = static_cast<int32_t>(plan->banned.size());
  AppendBanned(tokens, sequence.prompt_len, sequence.sampling, sequence.stopping, sequence.eos_token_ids,
               &plan->banned);
  return {first, static_cast<int32_t>(plan->banned.size()) - first};
}

void FillEdits(const SequenceView& sequence, const StepShare& share, SequenceStep* step, StepPlan* plan) {
  step->biases = Append(std::span<const std::pair<TokenId, float>>(sequence.sampling.logit_bias), &plan->biases);
  step->mask = AppendMask(sequence.sampling.allowed_token_ids, plan);
  if (sequence.constrained != nullptr) {
    step->constraint = static_cast<int32_t>(plan->constraints.size());
    plan->constraints.push_back(sequence.constrained);
  }
  if (HasPenalty(sequence.sampling)) {
    DUNLIN_CHECK(!sequence.counts.empty() || sequence.rows != nullptr, "penalties need the counts of the tokens");
    step->counts = Append(sequence.counts, &plan->counts);
  }
  const size_t num_known = sequence.tokens.size() - static_cast<size_t>(share.num_drafts);
  step->banned = AppendBannedAfter(sequence.tokens.first(num_known), sequence, plan);
  step->draft_rows = {static_cast<int32_t>(plan->draft_rows.size()), share.num_drafts};
  for (size_t end = num_known + 1; end <= sequence.tokens.size(); ++end) {
    plan->draft_rows.push_back({AppendBannedAfter(sequence.tokens.first(end), sequence, plan)});
  }
}

}  // namespace

void FillStep(const SequenceView& sequence, const StepShare& share, SequenceStep* step, StepPlan* plan) {
  const int32_t num_known = static_cast<int32_t>(sequence.tokens.size()) - share.num_drafts;
  const int32_t end = share.first_position + share.num_tokens;
  DUNLIN_CHECK(share.num_tokens >= 1 && end <= num_known, "a planned token is not known yet");
  DUNLIN_CHECK(!share.samples || end == num_known, "only the last known token gives the next one");
  DUNLIN_CHECK(share.samples || share.num_drafts == 0, "drafts follow the last known token");
  DUNLIN_CHECK(share.drawn_by < 0 || (share.samples && share.num_tokens + share.num_drafts == 1),
               "a token that is not known yet is a step's only one of its sequence");
  *step = {.request_id = sequence.request_id,
           .sequence_slot = sequence.sequence_slot,
           .state = {.slot = sequence.state.slot,
                     .copied_from = sequence.state.copied_from,
                     .cuts = Append(sequence.state.cuts, &plan->state_cuts)},
           .output_index = sequence.output_index,
           .first_position = share.first_position,
           .num_tokens = share.num_tokens + share.num_drafts,
           .prompt_len = sequence.prompt_len,
           .samples = share.samples,
           .drawn_by = share.drawn_by,
           .adapter = sequence.adapter,
           .rows = share.first_position < sequence.prompt_len ? sequence.rows : nullptr,
           .position_shift = sequence.rows == nullptr ? 0 : PositionShift(*sequence.rows, share.first_position),
           .row = DrawRow(sequence.sampling, sequence.output_index, end)};
  FillScores(sequence, step);
  const bool scores_next = step->num_scored > 0 && step->first_scored + step->num_scored > end;
  const size_t num_tokens = static_cast<size_t>(step->num_tokens) + (scores_next ? 1 : 0);
  step->tokens = Append(sequence.tokens.subspan(static_cast<size_t>(share.first_position), num_tokens), &plan->tokens);
  step->pages = Append(sequence.pages, &plan->pages);
  if (share.samples) FillEdits(sequence, share, step, plan);
}

void AppendSequence(const ExecutionProfile& profile, const SequenceView& sequence, const StepShare& share,
                    StepPlan* plan) {
  if (plan->sub_batches.empty() || plan->sub_batches.back().profile != profile) {
    plan->sub_batches.push_back({.profile = profile, .first_sequence = static_cast<int32_t>(plan->sequences.size())});
  }
  SubBatch& batch = plan->sub_batches.back();
  FillStep(sequence, share, &plan->sequences.emplace_back(), plan);
  ++batch.num_sequences;
  const int32_t num_tokens = share.num_tokens + share.num_drafts;
  batch.num_tokens += num_tokens;
  if (share.first_position >= sequence.prompt_len) batch.num_decode_tokens += num_tokens;
  plan->num_tokens += num_tokens;
}

}  // namespace dunlin::engine
