// SPDX-License-Identifier: Apache-2.0
// The runtime of a loaded model: owns the KV pool and every step buffer, runs plans through ForwardPass and the
// device's sampling. Launch enqueues a step and marks its end, Collect waits for that mark alone; steps in flight share
// the device's buffers, because its work has one order, and have host memory of their own. Neither allocates, except
// what a device's driver keeps of graphs (step_graphs.h). Thread rule: the engine thread only.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/layers/fp8_scaling.h"
#include "engine/model/model.h"
#include "engine/request/options.h"
#include "engine/runtime/adapter_stage.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/pool_backing.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/runtime.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_graphs.h"
#include "engine/runtime/step_slot.h"

namespace dunlin::engine {

class ModelRuntime : public Runtime {
 public:
  // Plans and allocates all memory (PlanMemory, StepBuffers::Allocate and StepSlot::Create say which errors); with
  // options.kv_backing pages of the KV pool get theirs later. States of recurrent layers have it from the start.
  // FAILED_PRECONDITION for an encoder. model outlives the runtime.
  static absl::StatusOr<std::unique_ptr<ModelRuntime>> Create(const Model* model, const EngineOptions& options);

  // Before the first step: WarmUp (warm_up.h) on this runtime's memory.
  absl::Status WarmUp(const ProfileTable& profiles, std::string* notice);

  absl::StatusOr<StepHandle> Launch(const StepPlan& plan) override;
  absl::Status Collect(StepHandle handle, StepResult* result) override;
  int32_t depth() const override { return static_cast<int32_t>(slots_.size()); }
  int32_t num_pages() const override { return buffers_->plan().num_pages; }
  KvPoolState kv_pool() const override;
  int32_t tokens_per_page(Precision precision) const override;
  KvGroups kv_groups() const override { return memory_plan().kv_groups; }
  int32_t num_state_slots() const override { return memory_plan().num_state_slots; }
  bool prefill_matches_decode() const override;
  kernels::DeviceMemory device_memory() const override {
    return model_->device()->ops->memory(model_->device()->context);
  }
  uint64_t progress() const override { return buffers_->progress(); }
  int64_t longest_mask_wait_ns() const override { return longest_mask_wait_ns_.load(std::memory_order_relaxed); }
  const MemoryPlan& memory_plan() const { return buffers_->plan(); }

 private:
  void BackPool(const KvBackingOptions& options);
  using Slots = std::vector<std::unique_ptr<StepSlot>>;
  ModelRuntime(const Model* model, std::unique_ptr<StepBuffers> buffers, Slots slots, Fp8Scaling scaling);

  StepSlot& slot(StepHandle handle) { return *slots_[static_cast<size_t>(handle) % slots_.size()]; }
  void FinishGrammarMasks(const StepPlan& plan);
  absl::Status RunSubBatch(const StepPlan& plan, const SubBatch& batch, StepSlot* slot);
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
  Slots slots_;                 // [depth], by handle
  StepHandle next_handle_ = 0;  // of Launch; wraps at a multiple of the depth
  StepHandle oldest_ = 0;       // of Collect
  int32_t num_in_flight_ = 0;
  std::atomic<int64_t> longest_mask_wait_ns_{0};  // written by the engine thread
};

}  // namespace dunlin::engine
