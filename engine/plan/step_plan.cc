// SPDX-License-Identifier: Apache-2.0
#include "engine/plan/step_plan.h"

#include <algorithm>

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
  tokens.reserve(static_cast<size_t>(limits.max_tokens) + num_sequences);
  pages.reserve(num_sequences * static_cast<size_t>(limits.max_pages_per_sequence));
  biases.reserve(num_sequences * kMaxLogitBias);
  counts.reserve(num_sequences * static_cast<size_t>(std::min(limits.vocab_size, limits.max_context_tokens)));
  banned.reserve(num_sequences * MaxBannedTokens(static_cast<size_t>(limits.num_eos_token_ids)));
  mask_words = kernels::MaskWords(limits.vocab_size);
  masks.reserve(num_sequences * static_cast<size_t>(mask_words));
}

void StepPlan::Clear() {
  sub_batches.clear();
  sequences.clear();
  num_tokens = 0;
  planned = 0;
  tokens.clear();
  pages.clear();
  biases.clear();
  counts.clear();
  banned.clear();
  masks.clear();
}

}  // namespace dunlin::engine
