// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/state_pool.h"

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {

StatePool::StatePool(int32_t num_slots) : num_slots_(num_slots) {
  DUNLIN_CHECK(num_slots >= 0, "a negative number of slots");
  free_.reserve(static_cast<size_t>(num_slots));
  for (StateSlot slot = num_slots; slot-- > 0;) free_.push_back(slot);
}

StateSlot StatePool::Allocate() {
  if (free_.empty()) return kNoStateSlot;
  const StateSlot slot = free_.back();
  free_.pop_back();
  return slot;
}

void StatePool::Release(StateSlot slot) {
  DUNLIN_CHECK(slot >= 0 && slot < num_slots_ && num_free() < num_slots_, "a slot is released once");
  free_.push_back(slot);
}

absl::Status StatePool::CheckIntegrity(const std::vector<StateSlot>& held) const {
  std::vector<int32_t> counts(static_cast<size_t>(num_slots_), 0);
  for (const auto* list : {&held, &free_}) {
    for (const StateSlot slot : *list) {
      if (slot < 0 || slot >= num_slots_) return absl::InternalError(absl::StrCat("no state slot ", slot));
      if (++counts[static_cast<size_t>(slot)] > 1)
        return absl::InternalError(absl::StrCat("state slot ", slot, " twice"));
    }
  }
  if (held.size() + free_.size() != counts.size()) return absl::InternalError("a state slot is lost");
  return absl::OkStatus();
}

}  // namespace dunlin::engine
