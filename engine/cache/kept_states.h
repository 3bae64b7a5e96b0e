// SPDX-License-Identifier: Apache-2.0
// Which state slots hold the state at the end of a cached page set. A sequence of a recurrent model can go on from a
// prefix only where such a state is kept: in the terms of KvGroups, states are a group whose window is one page set. A
// page set has one state at most. A state is unproven until a finite row of logits has depended on it.
// All operations are O(1) and allocate nothing. Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/page.h"
#include "engine/cache/state_pool.h"

namespace dunlin::engine {

struct KeptState {
  PageId lead = kNoPage;  // stands for the page set at whose end the state is; kNoPage: the slot holds none
  uint64_t serial = 0;    // grows with every state that is kept
  uint64_t keeper = 0;    // who computed it
  bool proven = false;
};

class KeptStates {
 public:
  KeptStates(int32_t num_pages, int32_t num_slots)
      : slots_(num_slots > 0 ? static_cast<size_t>(num_pages) : 0, kNoStateSlot),
        states_(static_cast<size_t>(num_slots)) {}

  bool has_slots() const { return !states_.empty(); }
  int32_t num_slots() const { return static_cast<int32_t>(states_.size()); }
  // Of the last state that was kept; 0 before the first.
  uint64_t last_serial() const { return last_serial_; }
  // States that are kept now.
  int32_t num_kept() const { return num_kept_; }

  // The slot with the state at the end of the page set that `lead` stands for, or kNoStateSlot.
  StateSlot Of(PageId lead) const { return has_slots() ? slots_[static_cast<size_t>(lead)] : kNoStateSlot; }
  const KeptState& At(StateSlot slot) const { return states_[static_cast<size_t>(slot)]; }

  // REQUIRES: the slot holds no kept state and the page set has none. Returns its serial.
  uint64_t Keep(PageId lead, StateSlot slot, uint64_t keeper);
  void Prove(StateSlot slot) { states_[static_cast<size_t>(slot)].proven = At(slot).lead != kNoPage; }
  // No-op when the slot holds none.
  void Forget(StateSlot slot);

  // Slots and page sets agree: INTERNAL with the first contradiction. O(pages).
  absl::Status CheckIntegrity() const;

 private:
  std::vector<StateSlot> slots_;   // [num_pages] of the page set that a page stands for; empty without slots
  std::vector<KeptState> states_;  // [num_slots]
  uint64_t last_serial_ = 0;
  int32_t num_kept_ = 0;
};

}  // namespace dunlin::engine
