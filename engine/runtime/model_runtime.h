// SPDX-License-Identifier: Apache-2.0
// The runtime of a loaded model: runs plans on its ranks (rank_runtime.h), of which there is one unless the model is
// divided. Launch enqueues a step and marks its end, Collect waits for that mark alone; steps in flight share the
// device's buffers, because its work has one order, and have host memory of their own. Neither allocates, except what a
// device's driver keeps of graphs (step_graphs.h).
// Several ranks run a step at once, rank 0 on the engine thread; a rank that fails ends all of them, and Launch returns
// its reason. Thread rule: the engine thread only.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/layers/embedding.h"
#include "engine/model/model.h"
#include "engine/parallel/device_links.h"
#include "engine/parallel/rank_team.h"
#include "engine/request/options.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/profiles.h"
#include "engine/runtime/rank_runtime.h"
#include "engine/runtime/runtime.h"

namespace dunlin::engine {

class ModelRuntime : public Runtime {
 public:
  // Plans and allocates all memory (PlanRanks and RankRuntime::Create say which errors); with options.kv_backing pages
  // of the KV pool get theirs later. States of recurrent layers have it from the start. FAILED_PRECONDITION for an
  // encoder and for ranks that cannot be linked; RESOURCE_EXHAUSTED without threads for them. model outlives the
  // runtime.
  static absl::StatusOr<std::unique_ptr<ModelRuntime>> Create(const Model* model, const EngineOptions& options);
  ~ModelRuntime() override;

  // Before the first step: WarmUp (warm_up.h) on this runtime's memory, and RecordDecodeSteps (record_steps.h).
  absl::Status WarmUp(const ProfileTable& profiles, std::string* notice);

  absl::StatusOr<StepHandle> Launch(const StepPlan& plan) override;
  absl::Status Collect(StepHandle handle, StepResult* result) override;

  // Of a model with a layer that predicts (ModelConfig::num_predictors). The final hidden row of a position that one of
  // the last steps has computed; -1: it is not known.
  int32_t FindHidden(RequestId id, int32_t position) const { return ranks_.front()->FindHidden(id, position); }
  // Runs the layer on the positions of a plan of one token a sequence, each the token after its position, and draws
  // from its head. hidden_rows: of FindHidden or, for the position after one that a prediction has computed,
  // PredictedHidden of that. Waits for the result. Errors: as Launch.
  absl::Status Predict(const StepPlan& plan, std::span<const int32_t> hidden_rows, StepResult* result);
  int32_t PredictedHidden(int32_t sequence_index) const { return ranks_.front()->PredictedHidden(sequence_index); }
  int32_t depth() const override { return depth_; }
  int32_t num_pages() const override { return memory_plan().num_pages; }
  KvPoolState kv_pool() const override;
  int32_t tokens_per_page(Precision precision) const override;
  KvGroups kv_groups() const override { return memory_plan().kv_groups; }
  int32_t num_state_slots() const override { return memory_plan().num_state_slots; }
  bool prefill_matches_decode() const override;
  bool takes_drawn_tokens() const override { return memory_plan().takes_drawn_tokens; }
  bool takes_rows() const override { return TakesRows(model_->config(), model_->num_ranks()); }
  kernels::DeviceMemory device_memory() const override { return model_->device_memory(); }
  uint64_t progress() const override { return ProgressOf(ranks_); }
  int32_t rank_at_fault() const override { return team_ == nullptr ? -1 : team_->group()->rank_at_fault(); }
  int64_t longest_mask_wait_ns() const override { return ranks_.front()->longest_mask_wait_ns(); }
  // Of all ranks.
  const MemoryPlan& memory_plan() const { return plan_; }
  StepGraphs* graphs() { return ranks_.front()->graphs(); }
  void TurnOffGraphs();  // of all ranks; REQUIRES: no step is in flight

 private:
  ModelRuntime(const Model* model, MemoryPlan plan);

  absl::Status StartRanks(const std::vector<MemoryPlan>& plans, const EngineOptions& options);
  absl::Status LaunchRanks(const StepPlan& plan, size_t slot);
  size_t SlotOf(StepHandle handle) const { return static_cast<size_t>(handle) % static_cast<size_t>(depth_); }

  const Model* model_;
  const MemoryPlan plan_;
  const int32_t depth_;
  std::unique_ptr<RankTeam> team_;                   // null: the model is not divided
  std::unique_ptr<DeviceLinks> links_;               // of linked ranks; else null
  std::vector<std::unique_ptr<RankRuntime>> ranks_;  // rank 0's first, which has what the others share
  StepHandle next_handle_ = 0;                       // of Launch; wraps at a multiple of the depth
  StepHandle oldest_ = 0;                            // of Collect
  int32_t num_in_flight_ = 0;
};

}  // namespace dunlin::engine
