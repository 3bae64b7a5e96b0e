// SPDX-License-Identifier: Apache-2.0
// Collects the rows of a sub-batch by their adapters. Allocates nothing after construction. Thread rule: the engine
// thread only.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/layers/adapter_rows.h"
#include "engine/layers/expert_adapters.h"
#include "engine/plan/step_plan.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/step_inputs.h"

namespace dunlin::engine {

class AdapterStage {
 public:
  AdapterStage(const ModelConfig& config, const MemoryPlan& plan);

  // Valid until the next call; null where no sequence of the sub-batch has an adapter. head_rows: the sub-batch's, in
  // their order. REQUIRES: the memory plan has buffers for adapters where a sequence has one.
  const AdapterRows* Stage(const StepPlan& plan, const SubBatch& batch, std::span<const HeadRow> head_rows);

 private:
  // Of the rows whose adapters add(i) names, i ascending, in *rows and *uses.
  template <typename AdapterOf>
  static void Collect(int32_t num_rows, const AdapterOf& adapter_of, std::vector<int32_t>* rows,
                      std::vector<AdapterRows::Use>* uses);

  bool planned_;
  std::vector<const Adapter*> row_adapters_;  // [rows of the sub-batch]
  std::vector<int32_t> rows_;
  std::vector<int32_t> kept_rows_;
  std::vector<AdapterRows::Use> uses_;
  std::vector<AdapterRows::Use> kept_uses_;
  std::vector<kernels::LowRankUse> list_;
  std::vector<int32_t> head_rows_;
  ExpertAdapters experts_;
  AdapterRows staged_{};
};

}  // namespace dunlin::engine
