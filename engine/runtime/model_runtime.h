// The runtime of a loaded model: owns the KV pool and every step buffer, runs plans through ForwardPass and Sampler.
// A step runs inside Launch, so one may be in flight; Collect hands its result over. Neither allocates.
// Thread rule: the engine thread only.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/options.h"
#include "engine/runtime/fp8_scaling.h"
#include "engine/runtime/memory_plan.h"
#include "engine/runtime/runtime.h"
#include "engine/runtime/step_buffers.h"
#include "engine/runtime/step_inputs.h"
#include "engine/sampling/sampler.h"

namespace dunlin::engine {

class ModelRuntime : public Runtime {
 public:
  // Plans and allocates all memory (PlanMemory and StepBuffers::Allocate say which errors). FAILED_PRECONDITION for an
  // encoder. model outlives the runtime.
  static absl::StatusOr<std::unique_ptr<ModelRuntime>> Create(const Model* model, const EngineOptions& options);

  absl::StatusOr<StepHandle> Launch(const StepPlan& plan) override;
  absl::Status Collect(StepHandle handle, StepResult* result) override;
  int32_t depth() const override { return 1; }
  int32_t num_pages() const override { return buffers_->plan().num_pages; }
  int32_t tokens_per_page(Precision precision) const override;
  bool prefill_matches_decode() const override { return model_->device()->ops->prefill_matches_decode; }
  const MemoryPlan& memory_plan() const { return buffers_->plan(); }

 private:
  ModelRuntime(const Model* model, const EngineOptions& options, std::unique_ptr<StepBuffers> buffers,
               Fp8Scaling scaling);

  absl::Status RunSubBatch(const StepPlan& plan, const SubBatch& batch);
  // Logits rows of the head block in host memory: the block itself on the CPU, a copy elsewhere.
  absl::StatusOr<const float*> HostLogits(int32_t rows);
  void UseRow(const StepPlan& plan, const HeadRow& head_row, const float* logits);
  void SampleRow(const SequenceStep& step, const float* logits, StepOutput* output);

  const Model* model_;
  std::unique_ptr<StepBuffers> buffers_;
  Fp8Scaling scaling_;
  StepInputs inputs_;
  Sampler sampler_;
  std::vector<float> host_logits_;  // empty on the CPU
  StepResult result_;               // of the step in flight
  StepHandle in_flight_ = -1;
  StepHandle next_handle_ = 0;
};

}  // namespace dunlin::engine
