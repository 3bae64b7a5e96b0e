// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/kept_states.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/base/check.h"

namespace dunlin::engine {

uint64_t KeptStates::Keep(PageId lead, StateSlot slot, uint64_t keeper) {
  DUNLIN_CHECK(Of(lead) == kNoStateSlot && At(slot).lead == kNoPage, "a page set has one state, a slot holds one");
  slots_[static_cast<size_t>(lead)] = slot;
  states_[static_cast<size_t>(slot)] = {lead, ++last_serial_, keeper, false};
  ++num_kept_;
  return last_serial_;
}

void KeptStates::Forget(StateSlot slot) {
  KeptState& state = states_[static_cast<size_t>(slot)];
  if (state.lead == kNoPage) return;
  slots_[static_cast<size_t>(state.lead)] = kNoStateSlot;
  state = {};
  --num_kept_;
}

absl::Status KeptStates::CheckIntegrity() const {
  int32_t kept = 0;
  for (StateSlot slot = 0; slot < num_slots(); ++slot) {
    const PageId lead = At(slot).lead;
    if (lead == kNoPage) continue;
    ++kept;
    if (Of(lead) != slot)
      return absl::InternalError(absl::StrCat("the state in slot ", slot, " is not its page set's"));
  }
  const auto of_pages =
      static_cast<std::ptrdiff_t>(slots_.size()) - std::count(slots_.begin(), slots_.end(), kNoStateSlot);
  if (kept == num_kept_ && of_pages == kept) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("kept states: ", num_kept_, " counted, ", kept, " in slots, ", of_pages, " of page sets"));
}

}  // namespace dunlin::engine
