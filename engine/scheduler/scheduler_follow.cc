// SPDX-License-Identifier: Apache-2.0
// Sharing pages while they are filled: of sequences with one prefix the oldest computes it and the others take its
// pages, a step later. Nothing ties them together: each plan asks anew who computes what, so a sequence whose leader is
// cancelled, preempted or late goes on from what has been published.
#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

// Takes what has been published since the last plan.
void Scheduler::TakePublishedPages() {
  for (Sequence* sequence : running_) {
    sequence->follows = false;
    if (!sequence->prefills() || sequence->num_in_flight > 0) continue;
    const int32_t taken = pages_.AttachMore(sequence);
    if (taken == 0) continue;
    sequence->prefill_tokens -= taken;
    if (sequence->info.preemptions > 0) continue;
    sequence->info.cached_tokens += taken;
    counters_.prompt_tokens_cached += static_cast<uint64_t>(taken);
    counters_.prefix_hits += static_cast<uint64_t>(taken);
  }
}

// The end of the full pages that `other` computes up to `reached`, in flight or in this plan, and that `sequence` needs
// next; 0 when there are none.
int32_t Scheduler::SharedEnd(const Sequence& sequence, const Sequence& other, int32_t reached) const {
  const int32_t page_tokens = sequence.tokens_per_page;
  const int32_t num_pages = sequence.num_computed / page_tokens;
  const auto first = num_pages * page_tokens;
  int32_t end = std::min(reached, other.num_tokens());
  if (!options_.prefill_matches_decode) end = std::min({end, other.prompt_len, sequence.prompt_len});
  end = std::min(end, sequence.num_tokens() - 1) / page_tokens * page_tokens;
  // What `other` has computed and published, and `sequence` has not taken, was taken out of the cache.
  if (other.num_computed >= first + page_tokens) return 0;
  if (end <= first || end <= other.num_computed || num_pages > pages_.NumPageSets(other)) return 0;
  if (num_pages == 0) {
    if (sequence.chain.domain != other.chain.domain) return 0;
  } else {
    // One page in common means that all tokens before it are equal. One that was given back tells nothing.
    const PageId last = pages_.LeadOf(sequence, num_pages - 1);
    if (last == kNoPage || last != pages_.LeadOf(other, num_pages - 1)) return 0;
  }
  const auto from = sequence.tokens.begin() + first;
  const auto to = sequence.tokens.begin() + end;
  const auto shared = std::mismatch(from, to, other.tokens.begin() + first).first - from;
  return first + static_cast<int32_t>(shared) / page_tokens * page_tokens;
}

// The end of the page sets that both compute, if `other` will have the state there: it keeps one where it has not got
// further yet; in a step that is being planned or in flight it keeps one where that was chosen. 0 where it has none. Of
// a newer one the state counts that its launched step leaves.
int32_t Scheduler::SharedStateEnd(const Sequence& sequence, const Sequence& other) const {
  if (sequence.chain.domain != other.chain.domain) return 0;
  int32_t end = std::min(sequence.num_tokens(), other.num_tokens()) - 1;
  if (!options_.prefill_matches_decode) end = std::min({end, other.prompt_len, sequence.prompt_len});
  const auto shared =
      std::mismatch(sequence.tokens.begin(), sequence.tokens.begin() + end, other.tokens.begin()).first -
      sequence.tokens.begin();
  end = static_cast<int32_t>(shared) / sequence.tokens_per_page * sequence.tokens_per_page;
  if (end <= sequence.num_computed) return 0;
  if (other.states.kept != kNoStateSlot && end == other.states.kept_end) return end;
  if (!IsOlder(&other, &sequence)) return 0;
  if (end >= other.next_position() + other.num_planned) return end;
  return other.num_planned > 0 && end == pages_.BorderWithin(other, other.num_planned) ? end : 0;
}

// A sequence waits if that brings it to its first token no later than computing up to `limit` tokens itself, beside the
// others of this step. With s tokens saved, f tokens in the time of a step's fixed part, and c computed by itself:
// - If it would end in this step, waiting costs it one more step: s >= f.
// - If not, it gets s tokens further in the time of s + f, or c tokens in the time of s + c + f.
// It waits for older ones only, so that of those that a plan leaves idle, someone older computes; or for what a newer
// one has in flight, which ends before the plan after the next one: the oldest never waits for more than that.
// Of a recurrent model it waits for the state at the end of all that it shares with the other, which keeps one there.
// If that takes more than this step, it waits unless it would end in this step itself.
bool Scheduler::Follows(const Sequence& sequence, int32_t limit) {
  if (sequence.num_in_flight > 0 || sequence.proven_only || !pages_.Reads(sequence)) return false;
  const int64_t fixed = options_.step_overhead_tokens;
  const int64_t computed = std::min(limit, sequence.num_uncomputed());
  for (Sequence* other : running_) {
    if (other == &sequence || other->num_in_flight + other->num_planned == 0) continue;
    const bool older = IsOlder(other, &sequence);
    if (other->num_in_flight == 0 && !older) continue;
    const int32_t reached = other->next_position() + (older ? other->num_planned : 0);
    const int32_t end =
        pages_.states().has_slots() ? SharedStateEnd(sequence, *other) : SharedEnd(sequence, *other, reached);
    const int64_t saved = int64_t{end} - sequence.num_computed;
    if (saved < fixed) continue;
    const bool ends = computed == sequence.num_uncomputed();
    if (ends && end > reached) continue;
    if (!ends && saved * (saved + fixed) < computed * fixed) continue;
    SequenceStates& states = other->states;
    if (end >= reached && (states.border < reached || end < states.border)) states.border = end;
    return true;
  }
  return false;
}

}  // namespace dunlin::engine
