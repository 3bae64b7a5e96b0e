// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/adapter_stage.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::engine {

AdapterStage::AdapterStage(const ModelConfig& config, const MemoryPlan& plan)
    : planned_(plan[BufferId::kAdapterInput] > 0) {
  if (!planned_) return;
  const auto tokens = static_cast<size_t>(plan.max_tokens_per_step);
  const auto sequences = static_cast<size_t>(plan.max_sequences);
  row_adapters_.reserve(tokens);
  rows_.reserve(tokens);
  kept_rows_.reserve(tokens);
  uses_.reserve(sequences);
  kept_uses_.reserve(sequences);
  list_.resize(sequences);
  head_rows_.resize(tokens);
  experts_.Reserve(config, plan.max_tokens_per_step, plan.max_sequences);
}

const AdapterRows* AdapterStage::Stage(const StepPlan& plan, const SubBatch& batch,
                                       std::span<const HeadRow> head_rows) {
  const std::span sequences =
      std::span(plan.sequences)
          .subspan(static_cast<size_t>(batch.first_sequence), static_cast<size_t>(batch.num_sequences));
  if (std::ranges::all_of(sequences, [](const SequenceStep& step) { return step.adapter == nullptr; })) return nullptr;
  DUNLIN_CHECK(planned_, "a sequence has an adapter, but no buffers are planned (EngineOptions::adapters)");
  row_adapters_.clear();
  for (const SequenceStep& step : sequences) {
    row_adapters_.insert(row_adapters_.end(), static_cast<size_t>(step.num_tokens), step.adapter);
  }
  Collect(
      batch.num_tokens, [&](int32_t row) { return row_adapters_[static_cast<size_t>(row)]; }, &rows_, &uses_);
  const auto of_head_row = [&](int32_t row) {
    return plan.sequences[static_cast<size_t>(head_rows[static_cast<size_t>(row)].sequence_index)].adapter;
  };
  Collect(static_cast<int32_t>(head_rows.size()), of_head_row, &kept_rows_, &kept_uses_);
  staged_ = {
      .all = uses_, .kept = kept_uses_, .list = list_.data(), .head_rows = head_rows_.data(), .experts = &experts_};
  return &staged_;
}

// Counts, then places: a use's rows follow one another in *rows.
template <typename AdapterOf>
void AdapterStage::Collect(int32_t num_rows, const AdapterOf& adapter_of, std::vector<int32_t>* rows,
                           std::vector<AdapterRows::Use>* uses) {
  uses->clear();
  const auto use_of = [uses](const Adapter* adapter) {
    return std::ranges::find(*uses, adapter, &AdapterRows::Use::adapter);
  };
  int32_t total = 0;
  for (int32_t row = 0; row < num_rows; ++row) {
    const Adapter* adapter = adapter_of(row);
    if (adapter == nullptr) continue;
    auto use = use_of(adapter);
    if (use == uses->end()) use = uses->insert(use, {adapter, nullptr, 0});
    ++use->num_rows;
    ++total;
  }
  rows->resize(static_cast<size_t>(total));
  int32_t* next = rows->data();
  for (AdapterRows::Use& use : *uses) {
    use.rows = next;
    next += std::exchange(use.num_rows, 0);
  }
  for (int32_t row = 0; row < num_rows; ++row) {
    const Adapter* adapter = adapter_of(row);
    if (adapter == nullptr) continue;
    AdapterRows::Use& use = *use_of(adapter);
    (*rows)[static_cast<size_t>(use.rows - rows->data() + use.num_rows++)] = row;
  }
}

}  // namespace dunlin::engine
