// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/step_plan.h"

#include <algorithm>
#include <bit>

#include "engine/sampling/banned_tokens.h"

namespace dunlin::engine {
namespace {

// Distinct profiles of one plan: every backend and precision of a device.
constexpr size_t kMaxSubBatches = size_t{kernels::kNumAttentionBackends} * kernels::kNumPrecisions;

}  // namespace

void StepPlan::Reserve(const StepPlanLimits& limits) {
  const auto num_sequences = static_cast<size_t>(limits.max_sequences);
  sub_batches.reserve(kMaxSubBatches);
  sequences.reserve(num_sequences);
  draft_rows.reserve(static_cast<size_t>(limits.max_draft_rows));
  state_cuts.reserve(num_sequences + draft_rows.capacity());
  tokens.reserve(static_cast<size_t>(limits.max_tokens) + num_sequences);
  pages.reserve(num_sequences * static_cast<size_t>(limits.max_pages_per_sequence));
  biases.reserve(num_sequences * kMaxLogitBias);
  counts.reserve(num_sequences * static_cast<size_t>(std::min(limits.vocab_size, limits.max_context_tokens)));
  banned.reserve((num_sequences + draft_rows.capacity()) *
                 MaxBannedTokens(static_cast<size_t>(limits.num_eos_token_ids)));
  mask_words = kernels::MaskWords(limits.vocab_size);
  masks.reserve(num_sequences * static_cast<size_t>(mask_words));
  constraints.reserve(num_sequences);
}

void StepPlan::Clear() {
  sub_batches.clear();
  sequences.clear();
  draft_rows.clear();
  state_cuts.clear();
  num_tokens = 0;
  planned = 0;
  tokens.clear();
  pages.clear();
  biases.clear();
  counts.clear();
  banned.clear();
  masks.clear();
  constraints.clear();
}

bool StepPlan::has_grammar_masks() const {
  return std::all_of(constraints.begin(), constraints.end(), [](const auto& output) { return output->is_computed(); });
}

void StepPlan::FinishGrammarMasks() const {
  for (auto output = constraints.rbegin(); output != constraints.rend(); ++output) (*output)->Compute();
  for (const auto& output : constraints) output->Finish();
}

std::span<const uint32_t> StepPlan::GrammarMaskOf(const SequenceStep& step, int32_t draw) const {
  if (step.constraint < 0) return {};
  return constraints[static_cast<size_t>(step.constraint)]->mask(static_cast<size_t>(draw));
}

bool StepPlan::AllowsNothing(const SequenceStep& step, int32_t draw) const {
  const std::span<const uint32_t> grammar = constraints[static_cast<size_t>(step.constraint)]->mask();
  const std::span<const uint32_t> allowed = MaskOf(step);
  const std::span<const TokenId> not_allowed = BannedOf(step, draw);
  for (size_t i = 0; i < grammar.size(); ++i) {
    for (uint32_t bits = allowed.empty() ? grammar[i] : grammar[i] & allowed[i]; bits != 0; bits &= bits - 1) {
      const auto token = static_cast<TokenId>(i * 32 + static_cast<size_t>(std::countr_zero(bits)));
      if (std::find(not_allowed.begin(), not_allowed.end(), token) == not_allowed.end()) return false;
    }
  }
  return true;
}

}  // namespace dunlin::engine
