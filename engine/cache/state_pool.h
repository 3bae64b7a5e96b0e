// SPDX-License-Identifier: Apache-2.0
// The slots for the states of a recurrent model's sequences: a fixed number of ids with reference counts, and a list of
// the free ones in the order of reuse. A slot without references may still hold a state that the prefix cache knows
// (kept_states.h), until it is allocated again. Nothing allocated after construction, every operation O(1). The pool
// knows nothing of states: the first step of a sequence, at position 0, does not read its slot.
// Thread rule: the engine thread only.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/cache/page_pool.h"

namespace dunlin::engine {

using StateSlot = int32_t;
inline constexpr StateSlot kNoStateSlot = kNoPage;

class StatePool {
 public:
  // num_slots: 0 of a model without recurrent layers.
  explicit StatePool(int32_t num_slots) : slots_(num_slots) {}

  // Whether the model's sequences have states at all.
  bool has_slots() const { return num_slots() > 0; }
  int32_t num_free() const { return slots_.num_free(); }
  int32_t num_slots() const { return slots_.num_pages(); }
  int32_t references(StateSlot slot) const { return slots_.references(slot); }

  // The least recently released one, with one reference; kNoStateSlot when none is free.
  StateSlot Allocate() { return slots_.Allocate(); }
  void Retain(StateSlot slot) { slots_.Retain(slot); }
  // Drops a reference. reusable: the state in it may be needed again; else a slot that is free now is the next to be
  // allocated. REQUIRES: a reference, and no launched step that writes the slot.
  void Release(StateSlot slot, bool reusable) { slots_.Release(slot, reusable); }
  // What is in the slot is of no use any more: if it is free, it is the next to be allocated.
  void Discard(StateSlot slot);

  // That every slot has as many references as it stands in `held`: INTERNAL with the first contradiction. For tests and
  // idle moments.
  absl::Status CheckIntegrity(const std::vector<StateSlot>& held) const;

 private:
  PagePool slots_;
};

}  // namespace dunlin::engine
