// SPDX-License-Identifier: Apache-2.0
// States of recurrent models: which of a sequence's are kept for the prefix cache, and how a sequence goes on from one.
#include <algorithm>
#include <bit>
#include <utility>

#include "engine/base/check.h"
#include "engine/scheduler/sequence_pages.h"

namespace dunlin::engine {

// Where no other slot is free, a state that no one else is about to copy is taken out of the cache and gone on from.
bool SequencePages::TakeState(Sequence* sequence) {
  if (!states_.has_slots()) return true;
  SequenceStates& own = sequence->states;
  DUNLIN_CHECK(own.slot == kNoStateSlot, "a sequence has one state");
  own.slot = AllocateState();
  if (own.slot == kNoStateSlot && own.source != kNoStateSlot && states_.references(own.source) == 1) {
    own.slot = std::exchange(own.source, kNoStateSlot);
    cache_.ForgetState(own.slot);
  }
  own.keeper = ++last_keeper_;
  return own.slot != kNoStateSlot;
}

StateSlot SequencePages::AllocateState() {
  const StateSlot slot = states_.Allocate();
  if (slot != kNoStateSlot) cache_.ForgetState(slot);
  return slot;
}

bool SequencePages::HasState(PageId lead, bool proven_only) const {
  if (!states_.has_slots()) return true;
  const StateSlot slot = cache_.states().Of(lead);
  return slot != kNoStateSlot && (!proven_only || cache_.states().At(slot).proven);
}

void SequencePages::TakeCachedState(Sequence* sequence, PageId lead) {
  SequenceStates& own = sequence->states;
  const StateSlot slot = cache_.states().Of(lead);
  states_.Retain(slot);
  if (own.source != kNoStateSlot) states_.Release(own.source, true);
  own.source = slot;
  const KeptState& state = cache_.states().At(slot);
  if (state.proven) return;
  own.taken = state.serial;
  own.on_trial = true;
  sequence->on_trial = true;
}

// Where the prompt leaves a cached one, after FindCached: others that have only this part in common find a state there.
void SequencePages::NoteJunction(Sequence* sequence, int32_t taken_sets) const {
  size_t matched = matched_.size();
  while (matched > 0 && matched_[matched - 1] == kNoPage) --matched;
  const int32_t junction = static_cast<int32_t>(matched) * sequence->tokens_per_page;
  const int32_t taken = taken_sets * sequence->tokens_per_page;
  if (junction >= taken + borders_.least_junction) sequence->states.border = junction;
}

// The last whole page set before the last known token, which a request with the same tokens has to compute.
int32_t SequencePages::LastBorder(const Sequence& sequence) const {
  return Attachable(sequence) / sequence.tokens_per_page * sequence.tokens_per_page;
}

int32_t SequencePages::IntervalOf(const Sequence& sequence) const {
  return std::max(1, borders_.interval / sequence.tokens_per_page) * sequence.tokens_per_page;
}

int32_t SequencePages::BorderWithin(const Sequence& sequence, int32_t num_tokens) const {
  if (!KeepsStates(sequence)) return 0;
  const int32_t first = sequence.next_position();
  const int32_t end = first + num_tokens;
  const int32_t last = LastBorder(sequence);
  if (first < last && last < end) return last;
  const int32_t interval = IntervalOf(sequence);
  const int32_t of_interval = std::min(end - 1, last) / interval * interval;
  return of_interval > first ? of_interval : 0;
}

int32_t SequencePages::ReserveDrafts(Sequence* sequence, int32_t wanted, int32_t left) {
  if (!states_.has_slots()) return wanted;
  SequenceStates& own = sequence->states;
  while (own.num_drafted < wanted && states_.num_free() > left) {
    own.drafted[static_cast<size_t>(own.num_drafted++)] = AllocateState();
  }
  return own.num_drafted;
}

StateView SequencePages::PlanState(Sequence* sequence, int32_t num_tokens) {
  if (!states_.has_slots()) return {};
  SequenceStates& own = sequence->states;
  StateView step{.slot = own.slot, .copied_from = own.source};
  cuts_.clear();
  const int32_t border = own.kept == kNoStateSlot ? BorderWithin(*sequence, num_tokens) : 0;
  const StateSlot next = border > 0 ? AllocateState() : kNoStateSlot;
  if (next != kNoStateSlot) {
    cuts_.push_back({border, next});
    own.kept = std::exchange(own.slot, next);
    own.kept_end = border;
  }
  const int32_t end = sequence->next_position() + num_tokens;
  for (int32_t i = 0; i < own.num_drafted; ++i) cuts_.push_back({end + i, own.drafted[static_cast<size_t>(i)]});
  step.cuts = cuts_;
  return step;
}

void SequencePages::EndPlan(Sequence* sequence) {
  const StateSlot source = std::exchange(sequence->states.source, kNoStateSlot);
  if (source != kNoStateSlot) states_.Release(source, cache_.states().At(source).lead != kNoPage);
}

bool SequencePages::WantsState(const Sequence& sequence) const {
  const SequenceStates& own = sequence.states;
  const int32_t position = sequence.num_computed;
  if (!KeepsStates(sequence) || sequence.num_in_flight > 0 || own.source != kNoStateSlot) return false;
  if (position == 0 || sequence.chain.num_pages * sequence.tokens_per_page != position) return false;
  return position == LastBorder(sequence) || position == own.border || position % IntervalOf(sequence) == 0;
}

void SequencePages::AcceptDraft(Sequence* sequence) {
  SequenceStates& own = sequence->states;
  if (own.num_accepted < own.num_drafted) {
    const bool kept = WantsState(*sequence) && Keep(sequence, own.slot);
    states_.Release(own.slot, kept);
    own.slot = own.drafted[static_cast<size_t>(own.num_accepted++)];
  }
  ++sequence->num_computed;
}

void SequencePages::DropDrafts(Sequence* sequence) {
  SequenceStates& own = sequence->states;
  for (; own.num_accepted < own.num_drafted; ++own.num_accepted) {
    states_.Release(own.drafted[static_cast<size_t>(own.num_accepted)], false);
  }
  own.num_drafted = own.num_accepted = 0;
}

void SequencePages::KeepAtEnd(Sequence* sequence) {
  SequenceStates& own = sequence->states;
  if (!WantsState(*sequence) || states_.num_free() == 0 || !Keep(sequence, own.slot)) return;
  own.source = std::exchange(own.slot, AllocateState());
}

// At the end of what is published. Of an output only the last one is kept.
bool SequencePages::Keep(Sequence* sequence, StateSlot slot) {
  SequenceStates& own = sequence->states;
  const uint64_t serial = cache_.KeepState(sequence->chain, slot, own.keeper);
  if (serial == 0) return false;
  own.on_trial = true;
  const int32_t position = sequence->chain.num_pages * sequence->tokens_per_page;
  if (position % IntervalOf(*sequence) == 0) Thin(*sequence, position);
  if (position < sequence->prompt_len) return true;
  if (own.output != kNoStateSlot && cache_.states().At(own.output).serial == own.output_serial) Drop(own.output);
  own.output = slot;
  own.output_serial = serial;
  return true;
}

// The state that a launched step left at kept_end, once that step is committed.
void SequencePages::KeepPublished(Sequence* sequence) {
  SequenceStates& own = sequence->states;
  if (own.kept == kNoStateSlot || own.kept_end != sequence->chain.num_pages * sequence->tokens_per_page) return;
  const bool kept = sequence->num_computed > own.kept_end && Keep(sequence, own.kept);
  states_.Release(std::exchange(own.kept, kNoStateSlot), kept);
}

// Of the states at intervals up to `position` those are left whose distance from it, in intervals, is next to a power
// of two: with twice the distance half as many.
void SequencePages::Thin(const Sequence& sequence, int32_t position) {
  const int32_t interval = IntervalOf(sequence);
  const int32_t last = position / interval;
  for (int32_t i = 1; i < last; ++i) {
    const auto distance = static_cast<uint32_t>(last - i);
    if (static_cast<uint32_t>(i) % std::bit_floor(std::max(1U, distance / 2)) == 0) continue;
    const PageId lead = LeadOf(sequence, i * (interval / sequence.tokens_per_page) - 1);
    const StateSlot slot = lead == kNoPage ? kNoStateSlot : cache_.states().Of(lead);
    if (slot != kNoStateSlot && cache_.states().At(slot).keeper == sequence.states.keeper) Drop(slot);
  }
}

// A finite row has depended on all states that the sequence has kept and taken, or one that was not finite: then any of
// them may be the cause, and leaves the cache.
void SequencePages::JudgeStates(Sequence* sequence, bool proven) {
  SequenceStates& own = sequence->states;
  if (!proven && own.kept != kNoStateSlot && own.kept_end <= sequence->num_computed) {
    states_.Release(std::exchange(own.kept, kNoStateSlot), false);
  }
  if (!own.on_trial) return;
  for (StateSlot slot = 0; slot < states_.num_slots(); ++slot) {
    const KeptState& state = cache_.states().At(slot);
    if (state.lead == kNoPage || state.proven) continue;
    if (state.keeper != own.keeper && state.serial != own.taken) continue;
    if (proven) {
      cache_.ProveState(slot);
    } else {
      Drop(slot);
    }
  }
  own.on_trial = false;
  own.taken = 0;
}

void SequencePages::Drop(StateSlot slot) {
  cache_.ForgetState(slot);
  states_.Discard(slot);
}

// keep: the state after the last committed token goes to the cache where a page set ends there.
void SequencePages::ReleaseStates(Sequence* sequence, bool keep) {
  SequenceStates& own = sequence->states;
  const int32_t end = sequence->chain.num_pages * sequence->tokens_per_page;
  if (own.slot != kNoStateSlot) {
    keep = keep && KeepsStates(*sequence) && own.source == kNoStateSlot && end > 0 && end == sequence->num_computed;
    states_.Release(own.slot, keep && Keep(sequence, own.slot));
  }
  if (own.kept != kNoStateSlot) states_.Release(own.kept, false);
  DropDrafts(sequence);
  EndPlan(sequence);
  own = {.output = own.output, .output_serial = own.output_serial};
}

}  // namespace dunlin::engine
