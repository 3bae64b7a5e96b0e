// SPDX-License-Identifier: Apache-2.0
#include "engine/runtime/step_slot.h"

#include <utility>

namespace dunlin::engine {
namespace {

void ReadRow(const HeadRow& row, const kernels::SampledToken& sampled, StepResult* result) {
  StepOutput& output = row.draft_row < 0 ? result->outputs[static_cast<size_t>(row.sequence_index)]
                                         : result->draft_outputs[static_cast<size_t>(row.draft_row)];
  if (row.scored_position < 0) {
    output.sampled = sampled.valid && !output.numerical_error;
    output.numerical_error = !output.sampled;
    if (output.sampled) output.token = sampled.token;
    return;
  }
  if (!sampled.valid) {
    output.numerical_error = true;
    return;
  }
  result->prompt_scores.push_back(
      {.sequence_index = row.sequence_index, .position = row.scored_position, .token = sampled.token});
}

}  // namespace

absl::StatusOr<std::unique_ptr<StepSlot>> StepSlot::Create(const MemoryPlan& plan, kernels::Device* device,
                                                           int32_t index) {
  absl::StatusOr<HostMemory> memory =
      HostMemory::Allocate(device, StepInputs::ArenaBytes(plan) + SampleStage::Bytes(plan), "the inputs of a step");
  if (!memory.ok()) return memory.status();
  kernels::DeviceEvent* ended = device->ops->create_event(device->context);
  if (ended == nullptr) return absl::ResourceExhaustedError("the device has no event left for a step");
  return std::unique_ptr<StepSlot>(new StepSlot(plan, device, *std::move(memory), ended, index));
}

StepSlot::StepSlot(const MemoryPlan& plan, kernels::Device* device, HostMemory memory, kernels::DeviceEvent* ended,
                   int32_t index)
    : device_(device),
      memory_(std::move(memory)),
      ended_(ended),
      inputs_(plan, reinterpret_cast<int32_t*>(memory_.data() + SampleStage::Bytes(plan))),
      samples_(plan, memory_.data(), index) {
  rows_.reserve(static_cast<size_t>(plan.max_tokens_per_step));
  draws_.reserve(static_cast<size_t>(plan.max_sequences));
}

StepSlot::~StepSlot() {
  (void)Wait();  // the device may still copy from the memory or into it
  device_->ops->destroy_event(device_->context, ended_);
}

void StepSlot::Restart(size_t num_sequences, size_t num_draft_rows) {
  inputs_.Restart();
  samples_.Restart();
  rows_.clear();
  draws_.assign(num_sequences, -1);
  num_sequences_ = num_sequences;
  num_draft_rows_ = num_draft_rows;
}

void StepSlot::AddRow(const HeadRow& row) {
  if (row.scored_position < 0 && row.draft_row < 0) {
    draws_[static_cast<size_t>(row.sequence_index)] = samples_.device_row(static_cast<int32_t>(rows_.size()));
  }
  rows_.push_back(row);
}

void StepSlot::Read(StepResult* result) const {
  result->Clear();
  result->outputs.resize(num_sequences_);
  result->draft_outputs.resize(num_draft_rows_);
  for (size_t i = 0; i < rows_.size(); ++i) ReadRow(rows_[i], samples_.result(static_cast<int32_t>(i)), result);
}

}  // namespace dunlin::engine
