// SPDX-License-Identifier: Apache-2.0
// The sampled rows of one step in host memory: what goes to the device's `sample`, and what comes back. Rows are added
// and launched in parts; all of a step's rows, with their results, stay until the step has been collected.
// Thread rule: the engine thread only. Nothing allocates after construction.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/plan/step_plan.h"
#include "engine/runtime/step_buffers.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

class SampleStage {
 public:
  // memory: Bytes(plan) from DeviceOps::allocate_host; borrowed. index: of the step slot.
  static size_t Bytes(const MemoryPlan& plan);
  SampleStage(const MemoryPlan& plan, std::byte* memory, int32_t index);

  // Forgets the rows of the step before, whose copies have ended.
  void Restart();

  // Adds a row; AddDraw of a plan that has its grammar masks: draw 0 behind the known tokens of the step, draw i behind
  // i drafts. AddDraw returns false, adding nothing, where the lists of
  // the rows since the last ReuseWords leave no room: after a Launch and a wait for the device, ReuseWords makes room
  // for any row.
  bool AddDraw(const StepPlan& plan, const SequenceStep& step, int32_t draw);
  void AddScore(TokenId token, int32_t logprobs);
  void ReuseWords() { num_words_ = launched_words_ = 0; }

  // Rows added since the last launch.
  int32_t pending() const { return num_rows_ - launched_rows_; }
  // Enqueues the pending rows, whose logits begin at `logits` in device memory, and the copy of their results.
  // REQUIRES: pending() <= kMaxLogitRows.
  kernels::KernelStatus Launch(const float* logits, int32_t vocab_size, StepBuffers* buffers);

  // Row i of the step, once what Launch enqueued has ended.
  const kernels::SampledToken& result(int32_t i) const { return results_[i]; }
  // Where row i is in kSampled until the next step but one. REQUIRES: MemoryPlan::takes_drawn_tokens.
  int32_t device_row(int32_t i) const { return first_device_row_ + i; }

 private:
  kernels::SampleRow* rows_;        // [max_tokens_per_step]
  kernels::SampledToken* results_;  // [max_tokens_per_step]
  uint32_t* words_;                 // [max_words_]
  size_t max_words_;
  bool keeps_results_;  // of the whole step on the device, from first_device_row_ on
  int32_t first_device_row_;
  int32_t num_rows_ = 0;
  int32_t launched_rows_ = 0;
  size_t num_words_ = 0;
  size_t launched_words_ = 0;
};

}  // namespace dunlin::engine
