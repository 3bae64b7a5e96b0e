// SPDX-License-Identifier: Apache-2.0
// Host memory of one step in flight, until it has been collected: its inputs, its sampled rows, and the event that
// marks its end on the device. A runtime of depth n has n of them.
// Thread rule: the engine thread only. Nothing allocates after Create.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/plan/step_result.h"
#include "engine/runtime/host_memory.h"
#include "engine/runtime/sample_stage.h"
#include "engine/runtime/step_inputs.h"

namespace dunlin::engine {

class StepSlot {
 public:
  // RESOURCE_EXHAUSTED when the device has no host memory or no event left. device outlives the slot.
  // index: of the slot among those of the runtime.
  static absl::StatusOr<std::unique_ptr<StepSlot>> Create(const MemoryPlan& plan, kernels::Device* device,
                                                          int32_t index);
  ~StepSlot();
  StepSlot(const StepSlot&) = delete;
  StepSlot& operator=(const StepSlot&) = delete;

  // Begins a step of so many sequences and drafts. REQUIRES: the previous one has ended.
  void Restart(size_t num_sequences, size_t num_draft_rows);
  // Records what the next row of samples() is for.
  void AddRow(const HeadRow& row);
  // By index of the step's sequences: the rows of kSampled of their draws, of those that draw.
  std::span<const int32_t> draws() const { return draws_; }
  // Close marks the end of the step; Wait blocks until the device is there.
  kernels::KernelStatus Close() { return device_->ops->record_event(device_->context, ended_); }
  kernels::KernelStatus Wait() { return device_->ops->wait_event(device_->context, ended_); }
  // Fills the result of a step that has ended.
  void Read(StepResult* result) const;

  StepInputs& inputs() { return inputs_; }
  SampleStage& samples() { return samples_; }

 private:
  StepSlot(const MemoryPlan& plan, kernels::Device* device, HostMemory memory, kernels::DeviceEvent* ended,
           int32_t index);

  kernels::Device* device_;
  HostMemory memory_;
  kernels::DeviceEvent* ended_;
  StepInputs inputs_;
  SampleStage samples_;
  size_t num_sequences_ = 0;
  size_t num_draft_rows_ = 0;
  std::vector<HeadRow> rows_;   // of samples_
  std::vector<int32_t> draws_;  // [sequences of the step]
};

}  // namespace dunlin::engine
