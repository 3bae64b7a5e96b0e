// SPDX-License-Identifier: Apache-2.0
// Runs step plans on a device. The engine loop knows this interface alone, so a simulation can stand in for a device.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/plan/step_plan.h"
#include "engine/plan/step_result.h"
#include "engine/request/kv_groups.h"
#include "engine/request/kv_pool_state.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

using StepHandle = int32_t;

class Runtime {
 public:
  virtual ~Runtime() = default;
  // Starts a step: gather, forward, sample. Calls StepPlan::FinishGrammarMasks before it samples. The plan's pages stay
  // its sequences', and the plan is not changed, until Collect. At most depth() handles are outstanding. On an error
  // the device can no longer be trusted; the engine stops.
  virtual absl::StatusOr<StepHandle> Launch(const StepPlan& plan) = 0;
  // Waits for a launched step and fills its result. Handles are collected in launch order.
  virtual absl::Status Collect(StepHandle handle, StepResult* result) = 0;
  // Steps that may be in flight at once.
  virtual int32_t depth() const = 0;
  // Pages of the KV pool, fixed at construction, and the tokens each holds for a precision; 0 for one not resident.
  virtual int32_t num_pages() const = 0;
  virtual int32_t tokens_per_page(Precision precision) const = 0;
  // Which of those pages may be used. Any thread.
  virtual KvPoolState kv_pool() const { return {num_pages(), false}; }
  // How a sequence's pages are divided: StepPlan::pages has one of each group for every range of tokens.
  virtual KvGroups kv_groups() const { return {}; }
  // Slots for states, of sequences and of the prefix cache (StepState names those below it), fixed at construction; 0:
  // the model has none, and its sequences run without.
  virtual int32_t num_state_slots() const { return 0; }
  // SchedulerOptions::prefill_matches_decode.
  virtual bool prefill_matches_decode() const = 0;
  // Whether plans may name tokens that the step before draws (SequenceStep::drawn_by). With a depth of 2.
  virtual bool takes_drawn_tokens() const = 0;
  // Whether sequences may have Request::rows.
  virtual bool takes_rows() const { return false; }
  // What the device has allocated, for all its models. Any thread.
  virtual kernels::DeviceMemory device_memory() const { return {}; }
  // Advances while a step is being launched: operations so far, so that a long step can be told from a stall. Any
  // thread.
  virtual uint64_t progress() const { return 0; }
  // Of a divided model: the rank that has failed or that others wait for; -1: there is none. Any thread.
  virtual int32_t rank_at_fault() const { return -1; }
  // The longest that a step has waited for the masks of constrained outputs, or computed them itself, since start. Any
  // thread.
  virtual int64_t longest_mask_wait_ns() const { return 0; }
};

}  // namespace dunlin::engine
