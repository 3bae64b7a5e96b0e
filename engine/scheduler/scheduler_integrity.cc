// SPDX-License-Identifier: Apache-2.0
// Checks of the scheduler's invariants; the simulation runs them after every step.
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {
namespace {

absl::Status CheckSequence(const Sequence& sequence, SequenceState expected, const KvGroups& groups, bool has_states) {
  const auto wrong = [&sequence](const char* what) {
    return absl::InternalError(absl::StrCat("sequence ", sequence.id, ": ", what));
  };
  if (sequence.state != expected) return wrong("its state is not that of its list");
  if (sequence.num_planned != 0) return wrong("a plan was left unfinished");
  if ((sequence.tenant == nullptr) != (expected == SequenceState::kRetiring)) return wrong("its tenant is wrong");
  if (sequence.num_in_flight < 0) return wrong("committed and not launched");
  // A token that is being drawn may be in flight: next to the one before it or, of a sequence that has ended, alone.
  const int32_t least_known = expected == SequenceState::kRetiring ? 0 : 1;
  const int32_t num_unknown = sequence.num_in_flight > least_known ? 1 : 0;
  if (sequence.num_uncomputed() < -num_unknown) return wrong("more tokens launched than known");
  const auto num_groups = static_cast<size_t>(groups.count());
  const auto paged = static_cast<int64_t>(sequence.pages.size() / num_groups) * sequence.tokens_per_page;
  if (paged < sequence.next_position()) return wrong("tokens without pages");
  const int64_t num_behind =
      groups.num_sliding == 0 ? 0 : groups.FirstRead(sequence.num_computed) / sequence.tokens_per_page;
  if (sequence.num_behind > num_behind) return wrong("pages that it will read were given back");
  for (size_t i = 0; i < sequence.pages.size(); ++i) {
    const bool behind = i / num_groups < static_cast<size_t>(sequence.num_behind);
    const bool given_back = behind && groups.slides(static_cast<int32_t>(i % num_groups));
    if ((sequence.pages[i] == kNoPage) != given_back) return wrong("a page is missing, or was not given back");
  }
  if (expected == SequenceState::kWaiting && !sequence.pages.empty()) return wrong("waits with pages");
  const bool lacks_state = expected == SequenceState::kRunning && has_states && sequence.states.slot == kNoStateSlot;
  if (lacks_state) return wrong("runs without a state");
  const SequenceStates& states = sequence.states;
  const bool holds_state = states.slot != kNoStateSlot || states.source != kNoStateSlot || states.kept != kNoStateSlot;
  if (expected == SequenceState::kWaiting && holds_state) return wrong("waits with a state");
  if (states.kept != kNoStateSlot && states.kept_end <= sequence.num_computed) return wrong("a state was not kept");
  return absl::OkStatus();
}

// Counts a sequence's references; a page that another sequence lists too must be full.
absl::Status CountPages(const Sequence& sequence, const PagePool& pool, int32_t num_groups,
                        std::vector<int32_t>* references) {
  for (size_t i = 0; i < sequence.pages.size(); ++i) {
    const PageId page = sequence.pages[i];
    if (page == kNoPage) continue;
    if (page < 0 || page >= pool.num_pages()) return absl::InternalError("a page outside the pool");
    ++(*references)[static_cast<size_t>(page)];
    const int64_t end = (static_cast<int64_t>(i) / num_groups + 1) * sequence.tokens_per_page;
    if (pool.references(page) > 1 && end > sequence.num_computed) {
      return absl::InternalError(absl::StrCat("sequence ", sequence.id, " writes the shared page ", page));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Scheduler::CheckIntegrity() const {
  if (absl::Status status = pages_.pool().CheckIntegrity(); !status.ok()) return status;
  if (absl::Status status = pages_.cache().CheckIntegrity(); !status.ok()) return status;
  const KvGroups& groups = pages_.groups();
  std::vector<int32_t> references(static_cast<size_t>(num_pages()), 0);
  std::vector<StateSlot> slots;
  const struct {
    const SequenceList& list;
    SequenceState state;
  } lists[] = {{waiting_.by_age(), SequenceState::kWaiting},
               {running_, SequenceState::kRunning},
               {retiring_, SequenceState::kRetiring}};
  for (const auto& [list, state] : lists) {
    for (const Sequence* sequence : list) {
      if (absl::Status status = CheckSequence(*sequence, state, groups, pages_.states().has_slots()); !status.ok()) {
        return status;
      }
      const SequenceStates& states = sequence->states;
      for (const StateSlot slot : {states.slot, states.source, states.kept}) {
        if (slot != kNoStateSlot) slots.push_back(slot);
      }
      slots.insert(slots.end(), states.drafted.begin() + states.num_accepted,
                   states.drafted.begin() + states.num_drafted);
      if (absl::Status status = CountPages(*sequence, pages_.pool(), groups.count(), &references); !status.ok())
        return status;
    }
  }
  if (absl::Status status = pages_.states().CheckIntegrity(slots); !status.ok()) return status;
  for (PageId page = 0; page < num_pages(); ++page) {
    const int32_t counted = references[static_cast<size_t>(page)];
    if (pages_.pool().references(page) != counted) {
      return absl::InternalError(
          absl::StrCat("page ", page, " has ", pages_.pool().references(page), " references and ", counted, " owners"));
    }
  }
  return absl::OkStatus();
}

}  // namespace dunlin::engine
