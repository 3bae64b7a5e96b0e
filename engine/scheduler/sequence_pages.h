// SPDX-License-Identifier: Apache-2.0
// Gives pages to sequences and takes them back, over the pool and the prefix cache.
// A page belongs to the sequences that list it; a shared page is full and never written again. A sequence lists page
// sets, one page of each layer group for the same range of tokens (KvGroups): Sequence::pages[set * groups + group].
// Thread rule: the engine thread only. Nothing is allocated after construction.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/cache/page_pool.h"
#include "engine/cache/prefix_cache.h"
#include "engine/cache/state_pool.h"
#include "engine/plan/sequence_view.h"
#include "engine/plan/step_plan.h"
#include "engine/request/kv_pool_state.h"
#include "engine/scheduler/sequence.h"

namespace dunlin::engine {

// Where states of recurrent layers are kept for the prefix cache, besides the last whole page set of what is known.
struct StateBorders {
  int32_t interval = 4096;  // every so many tokens of a long prompt, rounded to whole page sets; older ones are thinned
  int32_t least_junction = 64;  // where a prompt leaves a cached one: so many tokens after the last kept state
};

class SequencePages {
 public:
  // prefix_cache false: nothing is looked up and nothing is published.
  // prefill_matches_decode: a decoded token has the bits of a prefilled one, so that either's pages serve both.
  // pool: of which pages may be used; none: all.
  // max_page_sets: of one sequence, which may be more than the pool has where every group slides.
  SequencePages(const PrefixCacheOptions& options, bool prefix_cache, bool prefill_matches_decode,
                int32_t max_page_sets, const StateBorders& borders = {},
                const std::optional<KvPoolState>& pool = std::nullopt);

  // Starts an empty sequence with the cached pages of its first tokens: as many as it can go on from, which takes the
  // pages of full groups of all of them and those of sliding groups that the next token reads. The last known token is
  // always left to compute, because its logits are needed. A request that scores its prompt or bypasses the cache gets
  // none, nor does one whose profile does not share pages (its own are never published either). REQUIRES: no pages.
  // Sets num_computed.
  void AttachCached(Sequence* sequence);
  // The same for a sequence that has computed some of its tokens: takes the pages that others have published since.
  // Returns the tokens that it need not compute any more. REQUIRES: nothing in flight.
  int32_t AttachMore(Sequence* sequence);
  // Whether there is a prefix cache.
  bool shares() const { return prefix_cache_; }
  // Whether a sequence takes pages that others compute.
  bool Reads(const Sequence& sequence) const {
    const Request& request = sequence.request;
    return prefix_cache_ && request.profile.shares_pages() && request.sampling.prompt_logprobs < 0 &&
           !request.bypass_prefix_cache;
  }

  // Adds page sets for the first `num_tokens` tokens, as far as there are free pages. Returns how many tokens now have
  // pages; more than num_tokens when the last page has room.
  int32_t Reserve(Sequence* sequence, int32_t num_tokens);

  // States of a recurrent model (sequence_states.cc); without one, nothing to do.
  //
  // A state is kept by giving its slot to the cache; the sequence goes on from a copy. It is kept at the last whole
  // page set of the known tokens (so of the prompt, of what a preempted sequence computes again and, while it decodes,
  // of each full page set of the output in place of the one before), where a prompt leaves a cached one that reaches
  // further than its states, where another sequence waits for it, and along long prompts.
  //
  // Gives a sequence that starts the slot for its state, until Release. False: none is free.
  bool TakeState(Sequence* sequence);
  // Slots for the states after the next `wanted` drafts of a sequence, as long as more than `left` are free: as many as
  // it returns, until DropDrafts or Release. All of them without states.
  int32_t ReserveDrafts(Sequence* sequence, int32_t wanted, int32_t left);
  // What the next num_tokens tokens and the drafts behind them do to the state. Valid until the next call.
  StateView PlanState(Sequence* sequence, int32_t num_tokens);
  // The plan is made: what its steps copy from may be overwritten by steps after it. num_tokens: as PlanState.
  void EndPlan(Sequence* sequence);
  // The next draft counts: its token is computed. Keeps the state before it, if it is wanted.
  void AcceptDraft(Sequence* sequence);
  // No further draft counts.
  void DropDrafts(Sequence* sequence);
  // Keeps the state after what is committed, if it is wanted. REQUIRES: the sequence goes on, and is published so far.
  void KeepAtEnd(Sequence* sequence);
  // The state was lost with launched steps.
  void LoseState(Sequence* sequence) { ReleaseStates(sequence, false); }
  // Within the next num_tokens tokens, behind the first: where the state will be kept; 0: nowhere.
  int32_t BorderWithin(const Sequence& sequence, int32_t num_tokens) const;

  // Gives back the pages of sliding groups that no token from the first uncomputed one on reads, tokens in flight
  // included. What the cache holds of them can be found until it is overwritten.
  void FreeBehindWindow(Sequence* sequence);

  // Pages that the sequence has, and what it would have at most with its first `num_tokens` tokens.
  int64_t NumHeld(const Sequence& sequence) const;
  int64_t MostHeld(const Sequence& sequence, int32_t num_tokens, int32_t step_tokens) const {
    return groups_.MostPages(num_tokens, sequence.tokens_per_page, step_tokens);
  }
  // The page of group 0, which stands for the page set; kNoPage when it has been given back. REQUIRES: the page set is
  // there.
  PageId LeadOf(const Sequence& sequence, int32_t set) const {
    return sequence.pages[static_cast<size_t>(set) * num_groups()];
  }
  int32_t NumPageSets(const Sequence& sequence) const {
    return static_cast<int32_t>(sequence.pages.size() / num_groups());
  }

  // Enters the full pages of the first `num_tokens` computed tokens into the cache. Where an equal, proven page is
  // cached already and nothing is in flight, the sequence takes that one and releases its own. `proven`: a finite row
  // has depended on all of them.
  void Publish(Sequence* sequence, int32_t num_tokens, bool proven);

  // A row of the sequence was not finite: takes its unproven pages, any of which may be the cause, out of the cache.
  void Distrust(Sequence* sequence);

  // Releases the states and all pages, the last one first, so that the tail of a cached prefix is overwritten
  // first.
  // REQUIRES: nothing in flight. Clears num_computed.
  void Release(Sequence* sequence);

  // PagePool::Grow.
  void Grow(int32_t num_usable_pages) { pool_.Grow(num_usable_pages); }
  // Takes every page out of the cache, whoever uses it.
  void ClearCache() { cache_.Clear(); }

  const KvGroups& groups() const { return groups_; }
  const PagePool& pool() const { return pool_; }
  const PrefixCache& cache() const { return cache_; }
  const StatePool& states() const { return states_; }

 private:
  // The tokens whose pages may be another sequence's.
  int32_t Attachable(const Sequence& sequence) const;
  PrefixChain FindCached(const Sequence& sequence);
  bool HasSlidingPages(PageId lead, bool proven_only) const;
  void TakePageSet(Sequence* sequence, int32_t set, PageId lead, int32_t first_read);
  void TakeProven(Sequence* sequence, int32_t set, PageId lead);
  void Forget(PageId page);

  bool HasState(PageId lead, bool proven_only) const;
  void NoteJunction(Sequence* sequence, int32_t taken_sets) const;
  void TakeCachedState(Sequence* sequence, PageId lead);
  StateSlot AllocateState();
  void Drop(StateSlot slot);
  bool KeepsStates(const Sequence& sequence) const {
    return states_.has_slots() && prefix_cache_ && sequence.request.profile.shares_pages();
  }
  int32_t LastBorder(const Sequence& sequence) const;
  int32_t IntervalOf(const Sequence& sequence) const;
  // Whether the state after what is committed and published is to be kept.
  bool WantsState(const Sequence& sequence) const;
  bool Keep(Sequence* sequence, StateSlot slot);
  void KeepPublished(Sequence* sequence);
  void Thin(const Sequence& sequence, int32_t position);
  void JudgeStates(Sequence* sequence, bool proven);
  void ReleaseStates(Sequence* sequence, bool keep);
  size_t num_groups() const { return static_cast<size_t>(groups_.count()); }

  KvGroups groups_;
  PagePool pool_;
  PrefixCache cache_;
  StatePool states_;
  std::vector<PageId> matched_;  // [max_page_sets] of FindCached: what stands for each page set
  bool prefix_cache_;
  bool prefill_matches_decode_;
  StateBorders borders_;
  std::vector<StateCut> cuts_;  // of PlanState
  uint64_t last_keeper_ = 0;
};

}  // namespace dunlin::engine
