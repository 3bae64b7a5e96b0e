// SPDX-License-Identifier: Apache-2.0
#include "engine/cache/state_pool.h"

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

void StatePool::Discard(StateSlot slot) {
  if (references(slot) > 0) return;
  Retain(slot);
  Release(slot, false);
}

absl::Status StatePool::CheckIntegrity(const std::vector<StateSlot>& held) const {
  if (absl::Status status = slots_.CheckIntegrity(); !status.ok()) return status;
  std::vector<int32_t> counts(static_cast<size_t>(num_slots()), 0);
  for (const StateSlot slot : held) {
    if (slot < 0 || slot >= num_slots()) return absl::InternalError(absl::StrCat("no state slot ", slot));
    ++counts[static_cast<size_t>(slot)];
  }
  for (StateSlot slot = 0; slot < num_slots(); ++slot) {
    const int32_t owners = counts[static_cast<size_t>(slot)];
    if (references(slot) == owners) continue;
    return absl::InternalError(
        absl::StrCat("state slot ", slot, " has ", references(slot), " references and ", owners, " owners"));
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
