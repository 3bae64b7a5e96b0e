// SPDX-License-Identifier: Apache-2.0
// One rank of a model's runtime: its KV pool and step buffers, its part of every pass and, of rank 0, the sampling. A
// model that is not divided has the one rank. Ranks run the same plan at once (model_runtime.h); each stages the inputs
// of its device itself. Nothing is allocated after Create, except what a device's driver keeps of graphs
// (step_graphs.h). Thread rule: the rank's thread only, unless a member says otherwise.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/forward_pass.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/model/model.h"
#include "engine/parallel/rank_group.h"
#include "engine/plan/step_plan.h"
#include "engine/plan/step_result.h"
#include "engine/request/options.h"
#include "engine/runtime/adapter_stage.h"
#include "engine/runtime/hidden_rows.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/pool_backing.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_graphs.h"
#include "engine/runtime/step_slot.h"

namespace dunlin::engine {

class RankRuntime {
 public:
  // What rank 0 and the meeting point are to the other ranks; null of a model with one rank, `first` also of rank 0.
  struct Team {
    RankGroup* group = nullptr;
    const RankRuntime* first = nullptr;
  };

  // Allocates all memory of the plan (StepBuffers::Allocate and StepSlot::Create say which errors); with
  // options.kv_backing pages of the KV pool get theirs later. model: of the rank. All arguments outlive the runtime.
  static absl::StatusOr<std::unique_ptr<RankRuntime>> Create(const Model* model, const MemoryPlan& plan,
                                                             const EngineOptions& options, const Team& team);

  // Runs the plan's pass and marks its end; slot: of this step, < EngineOptions::steps_in_flight, whose step before has
  // been waited for.
  absl::Status Launch(const StepPlan& plan, size_t slot);
  absl::Status Wait(size_t slot);
  // Of rank 0, once Wait has returned.
  void Read(size_t slot, StepResult* result) const { slots_[slot]->Read(result); }

  // Of a model with a layer that predicts: as of ModelRuntime.
  int32_t FindHidden(RequestId id, int32_t position) const { return hidden_rows_.Find(id, position); }
  absl::Status Predict(const StepPlan& plan, std::span<const int32_t> hidden_rows);
  // Of rank 0, once Predict has returned.
  void ReadPrediction(StepResult* result) const { prediction_->Read(result); }
  int32_t PredictedHidden(int32_t sequence_index) const { return hidden_rows_.RowOfPrediction(sequence_index); }

  StepBuffers* buffers() { return buffers_.get(); }
  StepGraphs* graphs() { return &graphs_; }
  // Any thread.
  KvPoolState kv_pool() const;
  uint64_t progress() const { return buffers_->progress(); }
  int64_t longest_mask_wait_ns() const { return longest_mask_wait_ns_.load(std::memory_order_relaxed); }

 private:
  using Slots = std::vector<std::unique_ptr<StepSlot>>;
  RankRuntime(const Model* model, std::unique_ptr<StepBuffers> buffers, Slots slots, Fp8Scaling scaling,
              std::unique_ptr<StepSlot> prediction);

  const MemoryPlan& memory_plan() const { return buffers_->plan(); }
  void BackPool(const KvBackingOptions& options);
  void FinishGrammarMasks(const StepPlan& plan);
  // first_row: tokens of the sub-batches before it.
  absl::Status RunSubBatch(const StepPlan& plan, const SubBatch& batch, int32_t first_row, StepSlot* slot);
  // Fills the pages of the layer that predicts, from the rows that the pass has computed.
  absl::Status StorePredictorKv(const SubBatch& batch, int32_t first_row, const StepInputs& inputs, ForwardPass* pass);
  absl::Status PredictSubBatch(const StepPlan& plan, const SubBatch& batch, std::span<const int32_t> hidden_rows);
  float* HiddenAt(int32_t row) const;
  // Head rows [first, first + count) of the sub-batch, whose logits are in kLogits.
  absl::Status SampleRows(const StepPlan& plan, int32_t first, int32_t count, StepSlot* slot);
  absl::Status LaunchRows(int32_t first_logit_row, StepSlot* slot);
  bool AddRow(const StepPlan& plan, const HeadRow& row, StepSlot* slot);

  const Model* model_;
  std::unique_ptr<StepBuffers> buffers_;
  std::unique_ptr<PoolBacking> backing_;  // of buffers_; null: all of the pool has memory
  Fp8Scaling scaling_;
  StepGraphs graphs_;
  AdapterStage adapters_;
  HiddenRows hidden_rows_;
  std::unique_ptr<StepSlot> prediction_;  // of Predict; null: no layer predicts
  Slots slots_;
  const StepSlot* before_ = nullptr;              // of the step that was launched last
  std::atomic<int64_t> longest_mask_wait_ns_{0};  // written by the rank's thread
};

}  // namespace dunlin::engine
