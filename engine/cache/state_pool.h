// SPDX-License-Identifier: Apache-2.0
// The slots for the states of a recurrent model's sequences: a fixed number of ids and a list of the free ones. A slot
// belongs to one sequence while it runs, and is never shared. Nothing allocated after construction, every operation
// O(1). The pool knows nothing of states: the first step of a sequence, at position 0, does not read its slot.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace dunlin::engine {

using StateSlot = int32_t;
inline constexpr StateSlot kNoStateSlot = -1;

class StatePool {
 public:
  // num_slots: 0 of a model without recurrent layers.
  explicit StatePool(int32_t num_slots);

  // Whether the model's sequences have states at all.
  bool has_slots() const { return num_slots_ > 0; }
  int32_t num_free() const { return static_cast<int32_t>(free_.size()); }
  int32_t num_slots() const { return num_slots_; }

  // kNoStateSlot when none is free.
  StateSlot Allocate();
  // REQUIRES: allocated, and used by no launched step.
  void Release(StateSlot slot);

  // That every slot is free or in `held`, once: INTERNAL with the first contradiction. For tests and idle moments.
  absl::Status CheckIntegrity(const std::vector<StateSlot>& held) const;

 private:
  int32_t num_slots_;
  std::vector<StateSlot> free_;  // the next one last
};

}  // namespace dunlin::engine
