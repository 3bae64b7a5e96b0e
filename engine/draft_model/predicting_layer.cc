// SPDX-License-Identifier: Apache-2.0
#include "engine/draft_model/predicting_layer.h"

#include <algorithm>
#include <utility>

namespace dunlin::engine {

PredictingLayer::PredictingLayer(ModelRuntime* runtime, int32_t vocab_size) : runtime_(runtime) {
  const MemoryPlan& memory = runtime->memory_plan();
  active_.reserve(static_cast<size_t>(memory.max_sequences));
  hidden_rows_.reserve(static_cast<size_t>(memory.max_sequences));
  plan_.Reserve({.max_sequences = memory.max_sequences,
                 .max_tokens = memory.max_sequences,
                 .max_context_tokens = memory.max_context_tokens,
                 .max_pages_per_sequence = memory.max_pages_per_sequence * memory.kv_groups.count(),
                 .vocab_size = vocab_size});
  result_.Reserve(memory.max_sequences, 0);
}

absl::StatusOr<DraftWork> PredictingLayer::Draft(std::span<const DraftDemand> demands) {
  DraftWork work;
  active_.clear();
  for (const DraftDemand& demand : demands) {
    const auto last = static_cast<int32_t>(demand.tokens.size()) - 1;
    const int32_t hidden = last > 0 ? runtime_->FindHidden(demand.sequence_id, last - 1) : -1;
    if (hidden >= 0) active_.push_back({&demand, last - 1, demand.tokens.back(), hidden});
  }
  // Those of one profile are a sub-batch.
  const auto rank = [](const Active& active) {
    return std::pair(active.demand->profile.precision, active.demand->profile.attention_backend);
  };
  std::sort(active_.begin(), active_.end(), [&](const Active& a, const Active& b) { return rank(a) < rank(b); });
  while (!active_.empty()) {
    PlanRound();
    if (absl::Status status = runtime_->Predict(plan_, hidden_rows_, &result_); !status.ok()) return status;
    ++work.rounds;
    work.rows += plan_.num_tokens;
    TakeRound();
  }
  return work;
}

void PredictingLayer::PlanRound() {
  plan_.Clear();
  hidden_rows_.clear();
  for (const Active& active : active_) {
    const ExecutionProfile& profile = active.demand->profile;
    if (plan_.sub_batches.empty() || plan_.sub_batches.back().profile != profile) {
      plan_.sub_batches.push_back({.profile = profile, .first_sequence = static_cast<int32_t>(plan_.sequences.size())});
    }
    SubBatch& batch = plan_.sub_batches.back();
    ++batch.num_sequences;
    ++batch.num_tokens;
    ++batch.num_decode_tokens;
    ++plan_.num_tokens;
    SequenceStep& step = plan_.sequences.emplace_back();
    step.request_id = active.demand->sequence_id;
    step.first_position = active.position;
    step.num_tokens = 1;
    step.samples = true;
    step.row.temperature = 0.0F;
    step.tokens = {static_cast<int32_t>(plan_.tokens.size()), 1};
    plan_.tokens.push_back(active.token);
    const std::span<const PageId> pages = active.demand->pages;
    step.pages = {static_cast<int32_t>(plan_.pages.size()), static_cast<int32_t>(pages.size())};
    plan_.pages.insert(plan_.pages.end(), pages.begin(), pages.end());
    hidden_rows_.push_back(active.hidden);
  }
}

void PredictingLayer::TakeRound() {
  size_t kept = 0;
  for (size_t i = 0; i < active_.size(); ++i) {
    const StepOutput& output = result_.outputs[i];
    Active active = active_[i];
    std::vector<TokenId>* guesses = active.demand->guesses;
    if (!output.sampled) continue;
    guesses->push_back(output.token.token_id);
    if (guesses->size() == static_cast<size_t>(active.demand->max_drafts)) continue;
    ++active.position;
    active.token = output.token.token_id;
    active.hidden = runtime_->PredictedHidden(static_cast<int32_t>(i));
    active_[kept++] = active;
  }
  active_.resize(kept);
}

}  // namespace dunlin::engine
