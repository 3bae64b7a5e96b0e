// SPDX-License-Identifier: Apache-2.0
#include "engine/scheduler/sequence_pages.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "engine/base/check.h"

namespace dunlin::engine {

SequencePages::SequencePages(const PrefixCacheOptions& options, bool prefix_cache, bool prefill_matches_decode,
                             int32_t max_page_sets, const StateBorders& borders, const std::optional<KvPoolState>& pool)
    : groups_(options.groups),
      pool_(options.num_pages, pool.has_value() ? pool->num_pages : options.num_pages),
      cache_(options),
      states_(options.num_state_slots),
      prefix_cache_(prefix_cache),
      prefill_matches_decode_(prefill_matches_decode),
      borders_(borders) {
  matched_.reserve(static_cast<size_t>(max_page_sets));
  cuts_.reserve(1 + kMaxDrafts);
}

int32_t SequencePages::Attachable(const Sequence& sequence) const {
  const int32_t known = sequence.num_tokens() - 1;
  return prefill_matches_decode_ ? known : std::min(known, sequence.prompt_len);
}

void SequencePages::AttachCached(Sequence* sequence) {
  DUNLIN_CHECK(sequence->pages.empty() && sequence->num_in_flight == 0, "only an empty sequence starts from the cache");
  sequence->num_computed = 0;
  if (!prefix_cache_ || !sequence->request.profile.shares_pages()) return;
  const Request& request = sequence->request;
  sequence->chain = cache_.Root(request.profile, request.cache_salt, request.adapter.id);
  sequence->states.looked_at = ~uint64_t{0};
  AttachMore(sequence);
}

int32_t SequencePages::AttachMore(Sequence* sequence) {
  DUNLIN_CHECK(sequence->num_in_flight == 0, "pages of a launched step are not exchanged");
  const int32_t first = sequence->num_computed / sequence->tokens_per_page;
  // Some of its computed pages are not published: those after the prompt, where decoded ones stay out.
  if (!Reads(*sequence) || sequence->chain.num_pages != first) return 0;
  if (states_.has_slots() &&
      std::exchange(sequence->states.looked_at, cache_.states().last_serial()) == cache_.states().last_serial()) {
    return 0;  // no state has been kept since
  }
  const int32_t before = sequence->num_computed;
  const PrefixChain chain = FindCached(*sequence);
  if (sequence->pages.empty()) NoteJunction(sequence, chain.num_pages);
  if (chain.num_pages == first) return 0;
  if (states_.has_slots()) TakeCachedState(sequence, matched_[static_cast<size_t>(chain.num_pages - first - 1)]);
  sequence->num_computed = chain.num_pages * sequence->tokens_per_page;
  const int32_t first_read = groups_.FirstRead(sequence->num_computed);
  for (int32_t set = first; set < chain.num_pages; ++set) {
    TakePageSet(sequence, set, matched_[static_cast<size_t>(set - first)], first_read);
  }
  sequence->chain = chain;
  FreeBehindWindow(sequence);
  return sequence->num_computed - before;
}

// The longest chain that the sequence can go on from; matched_ has a page for each of its page sets behind the
// sequence's. Where every group slides, an empty sequence does not need what lies before its window: page sets that are
// lost there are passed over, by the tokens' hash alone.
PrefixChain SequencePages::FindCached(const Sequence& sequence) {
  const int32_t page_tokens = sequence.tokens_per_page;
  const bool may_skip = groups_.num_full == 0 && sequence.pages.empty() && cache_.num_cached() > 0;
  PrefixChain chain = sequence.chain;
  PrefixChain longest = chain;
  int32_t whole_from = 0;  // the page sets from here on have all of their pages
  matched_.clear();
  while ((chain.num_pages + 1) * page_tokens <= Attachable(sequence)) {
    const TokenId* tokens = &sequence.tokens[static_cast<size_t>(chain.num_pages) * static_cast<size_t>(page_tokens)];
    const PageId lead = cache_.Match(tokens, page_tokens, &chain, sequence.proven_only);
    if (lead == kNoPage && !may_skip) break;
    if (lead == kNoPage) cache_.Skip(tokens, page_tokens, &chain);
    matched_.push_back(lead);
    const bool whole = lead != kNoPage && HasSlidingPages(lead, sequence.proven_only);
    if (!whole && !sequence.pages.empty()) break;  // looked for before every step, so not further than the first gap
    if (!whole) whole_from = chain.num_pages;
    const bool goes_on = groups_.FirstRead(chain.num_pages * page_tokens) / page_tokens >= whole_from;
    if (lead != kNoPage && goes_on && HasState(lead, sequence.proven_only)) longest = chain;
  }
  return longest;
}

bool SequencePages::HasSlidingPages(PageId lead, bool proven_only) const {
  for (int32_t group = groups_.num_full; group < groups_.count(); ++group) {
    const PageId page = cache_.PageOf(lead, group);
    if (page == kNoPage || (proven_only && !cache_.IsProven(page))) return false;
  }
  return true;
}

// The pages of a page set but those of sliding groups that end before `first_read`, in place of the sequence's own
// ones, which are begun and not yet full.
void SequencePages::TakePageSet(Sequence* sequence, int32_t set, PageId lead, int32_t first_read) {
  const bool behind = (set + 1) * sequence->tokens_per_page <= first_read;
  for (int32_t group = 0; group < groups_.count(); ++group) {
    const PageId page = behind && groups_.slides(group) ? kNoPage : cache_.PageOf(lead, group);
    if (page != kNoPage) {
      pool_.Retain(page);
      sequence->on_trial |= !cache_.IsProven(page);
    }
    const size_t index = static_cast<size_t>(set) * num_groups() + static_cast<size_t>(group);
    if (index == sequence->pages.size()) {
      sequence->pages.push_back(page);
      continue;
    }
    if (sequence->pages[index] != kNoPage) pool_.Release(sequence->pages[index], false);
    sequence->pages[index] = page;
  }
}

int32_t SequencePages::Reserve(Sequence* sequence, int32_t num_tokens) {
  const size_t wanted = static_cast<size_t>(PagesFor(num_tokens, sequence->tokens_per_page)) * num_groups();
  while (sequence->pages.size() < wanted && pool_.num_free() >= groups_.count()) {
    for (int32_t group = 0; group < groups_.count(); ++group) {
      const PageId page = pool_.Allocate();
      Forget(page);
      sequence->pages.push_back(page);
    }
  }
  return NumPageSets(*sequence) * sequence->tokens_per_page;
}

// The first token that is not committed is the first that any launched step computes.
void SequencePages::FreeBehindWindow(Sequence* sequence) {
  if (groups_.num_sliding == 0) return;
  const int32_t end = groups_.FirstRead(sequence->num_computed) / sequence->tokens_per_page;
  for (; sequence->num_behind < end; ++sequence->num_behind) {
    for (int32_t group = groups_.num_full; group < groups_.count(); ++group) {
      PageId& page =
          sequence->pages[static_cast<size_t>(sequence->num_behind) * num_groups() + static_cast<size_t>(group)];
      if (page != kNoPage) pool_.Release(page, cache_.Contains(page));
      page = kNoPage;
    }
  }
}

int64_t SequencePages::NumHeld(const Sequence& sequence) const {
  return static_cast<int64_t>(sequence.pages.size()) - int64_t{sequence.num_behind} * groups_.num_sliding;
}

void SequencePages::Publish(Sequence* sequence, int32_t num_tokens, bool proven) {
  DUNLIN_CHECK(num_tokens <= sequence->num_tokens(), "pages are published with the tokens that they hold");
  if (!prefix_cache_ || !sequence->request.profile.shares_pages()) return;
  const int32_t page_tokens = sequence->tokens_per_page;
  while ((sequence->chain.num_pages + 1) * page_tokens <= num_tokens) {
    const int32_t set = sequence->chain.num_pages;
    const TokenId* tokens = &sequence->tokens[static_cast<size_t>(set) * static_cast<size_t>(page_tokens)];
    const PageId* pages = &sequence->pages[static_cast<size_t>(set) * num_groups()];
    const PageId lead = cache_.Publish(tokens, page_tokens, pages, &sequence->chain);
    if (lead != pages[0] && sequence->num_in_flight == 0) TakeProven(sequence, set, lead);
    KeepPublished(sequence);
  }
  if (!proven) return;
  JudgeStates(sequence, true);
  for (; sequence->num_proven < sequence->chain.num_pages; ++sequence->num_proven) {
    for (size_t group = 0; group < num_groups(); ++group) {
      const PageId page = sequence->pages[static_cast<size_t>(sequence->num_proven) * num_groups() + group];
      if (page != kNoPage) cache_.Prove(page);
    }
  }
  sequence->on_trial = false;
}

// The sequence takes the proven pages of an equal page set in place of its own.
void SequencePages::TakeProven(Sequence* sequence, int32_t set, PageId lead) {
  for (int32_t group = 0; group < groups_.count(); ++group) {
    PageId& own = sequence->pages[static_cast<size_t>(set) * num_groups() + static_cast<size_t>(group)];
    const PageId present = cache_.PageOf(lead, group);
    if (present == own || present == kNoPage || own == kNoPage || !cache_.IsProven(present)) continue;
    pool_.Retain(present);
    pool_.Release(own, false);
    own = present;
  }
}

void SequencePages::Distrust(Sequence* sequence) {
  for (const PageId page : sequence->pages) {
    if (page != kNoPage && !cache_.IsProven(page)) Forget(page);
  }
  JudgeStates(sequence, false);
}

// The page's bytes are about to change.
void SequencePages::Forget(PageId page) {
  const StateSlot state = cache_.Forget(page);
  if (state != kNoStateSlot) states_.Discard(state);
}

void SequencePages::Release(Sequence* sequence) {
  DUNLIN_CHECK(sequence->num_in_flight == 0, "pages of a launched step are not given back");
  ReleaseStates(sequence, true);
  for (auto page = sequence->pages.rbegin(); page != sequence->pages.rend(); ++page) {
    if (*page != kNoPage) pool_.Release(*page, cache_.Contains(*page));
  }
  sequence->pages.clear();
  sequence->chain = {};
  sequence->num_behind = 0;
  sequence->num_proven = 0;
  sequence->on_trial = false;
  sequence->num_computed = 0;
}

}  // namespace dunlin::engine
