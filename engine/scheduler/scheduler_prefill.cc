// SPDX-License-Identifier: Apache-2.0
// Planning prompts: which is next, and how much of the step it gets. A sequence is started only if there are pages for
// all of its known tokens beyond what all running ones still need, so starting it preempts nobody.
#include "engine/base/check.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

// Running and waiting prompts, in the order of IsSooner.
void Scheduler::PlanPrefills(TimeNs now, int32_t tokens) {
  PrefillBudget budget{tokens, short_expected() ? quarter() : tokens, quarter()};
  PlanSharesOfOldest(now, &budget);
  while (budget.tokens > 0) {
    Sequence* next = NextPrefill(budget);
    if (next == nullptr) return;
    int32_t limit = budget.tokens;
    if (IsLong(*next)) limit = std::min(limit, budget.short_ends ? budget.long_beside_short : budget.long_tokens);
    if (limit == 0) return;  // after a long prompt there are only long ones
    if (next->state == SequenceState::kWaiting && !Start(next, now)) {
      budget.closed[ProfileIndex(next->request.profile)] = true;
    } else {
      PlanTokens(next, limit, &budget);
    }
  }
}

// A quarter of the step goes to the oldest running prompt, and to the oldest waiting one once it is due.
void Scheduler::PlanSharesOfOldest(TimeNs now, PrefillBudget* budget) {
  Sequence* oldest = OldestPrefill();
  if (oldest != nullptr) PlanTokens(oldest, std::min(budget->tokens, quarter()), budget);
  if (budget->tokens == 0 || waiting_.empty() || !waiting_.oldest_is_due()) return;
  Sequence* due = waiting_.oldest();
  if (Start(due, now)) PlanTokens(due, std::min(budget->tokens, std::max(1, budget->long_beside_short)), budget);
}

Sequence* Scheduler::OldestPrefill() const {
  for (Sequence* sequence : running_) {
    if (sequence->num_uncomputed() > 1) return sequence;
  }
  return nullptr;
}

// Whether `a` comes before `b`. Short prompts come before long ones of any profile, because they limit those.
bool Scheduler::IsSooner(const Sequence& a, const Sequence& b, const PrefillBudget& budget) const {
  if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
  if (IsLong(a) != IsLong(b)) return IsLong(b);
  const bool a_served = budget.served[ProfileIndex(a.request.profile)];
  const bool b_served = budget.served[ProfileIndex(b.request.profile)];
  if (a_served != b_served) return b_served;
  if (a.num_uncomputed() != b.num_uncomputed()) return a.num_uncomputed() < b.num_uncomputed();
  return IsOlder(&a, &b);
}

Sequence* Scheduler::NextPrefill(const PrefillBudget& budget) const {
  Sequence* next = nullptr;
  const auto consider = [&](Sequence* sequence) {
    if (next == nullptr || IsSooner(*sequence, *next, budget)) next = sequence;
  };
  for (Sequence* sequence : running_) {
    const int32_t wanted = ChunkOf(*sequence, options_.max_tokens_per_step);
    if (sequence->num_uncomputed() > 1 && sequence->num_planned < wanted) consider(sequence);
  }
  const bool due = !waiting_.empty() && waiting_.oldest_is_due();
  for (size_t profile = 0; profile < kNumProfiles; ++profile) {
    Sequence* shortest = waiting_.shortest(profile);
    if (shortest != nullptr && !due && !budget.closed[profile]) consider(shortest);
  }
  if (due && !budget.closed[ProfileIndex(waiting_.oldest()->request.profile)]) consider(waiting_.oldest());
  return next;
}

// Plans at most `limit` more tokens of a running sequence.
void Scheduler::PlanTokens(Sequence* sequence, int32_t limit, PrefillBudget* budget) {
  const int32_t before = sequence->num_planned;
  sequence->num_planned = ChunkOf(*sequence, before + limit);
  const int32_t given = sequence->num_planned - before;
  budget->tokens -= given;
  budget->served[ProfileIndex(sequence->request.profile)] = true;
  if (IsLong(*sequence)) {
    budget->long_tokens = std::max(0, budget->long_tokens - given);
    budget->long_beside_short = std::max(0, budget->long_beside_short - given);
    long_since_short_ += given;
  } else {
    budget->short_ends |= sequence->num_planned == sequence->num_uncomputed();
  }
}

// Pages that a sequence still needs for its known tokens and one page of tokens to come. Admission leaves these free
// for all running sequences, so that a new one is not preempted at once.
int64_t Scheduler::PagesToReserve(const Sequence& sequence) const {
  const int64_t known_and_headroom = int64_t{sequence.num_tokens()} + sequence.tokens_per_page;
  const auto tokens = static_cast<int32_t>(std::min<int64_t>(known_and_headroom, sequence.max_kv_tokens()));
  const int64_t missing =
      int64_t{PagesFor(tokens, sequence.tokens_per_page)} - static_cast<int64_t>(sequence.pages.size());
  return std::max<int64_t>(missing, 0);
}

// Attaches the cached prefix of a waiting sequence if there is room for the rest; else leaves it as it was.
bool Scheduler::AttachWithRoom(Sequence* sequence) {
  int64_t spare = pages_.pool().num_free();
  for (const Sequence* other : running_) spare -= PagesToReserve(*other);
  if (sequence->id == blocked_id_ && spare <= blocked_pages_) return false;
  const int64_t free_before = pages_.pool().num_free();
  pages_.AttachCached(sequence);
  if (PagesToReserve(*sequence) <= spare - (free_before - pages_.pool().num_free())) return true;
  pages_.Release(sequence);
  blocked_id_ = sequence->id;
  blocked_pages_ = spare;
  return false;
}

bool Scheduler::Start(Sequence* sequence, TimeNs now) {
  if (static_cast<int32_t>(running_.size()) == options_.max_sequences || !AttachWithRoom(sequence)) return false;
  waiting_.EraseStarted(sequence);
  running_.Insert(sequence);
  sequence->state = SequenceState::kRunning;
  sequence->prefill_tokens = sequence->num_uncomputed();
  if (sequence->num_tokens() <= quarter()) long_since_short_ = 0;
  CountAdmission(sequence, now);
  return true;
}

void Scheduler::CountAdmission(Sequence* sequence, TimeNs now) {
  if (sequence->info.preemptions > 0) return;
  sequence->info.first_scheduled = now;
  sequence->info.cached_tokens = sequence->num_computed;
  const auto prompt_tokens = static_cast<uint64_t>(sequence->prompt_len);
  const auto cached_tokens = static_cast<uint64_t>(sequence->num_computed);
  ++counters_.dequeued_requests;
  counters_.dequeued_tokens += prompt_tokens;
  counters_.prompt_tokens += prompt_tokens;
  counters_.prompt_tokens_cached += cached_tokens;
  if (options_.prefix_cache && sequence->request.profile.shares_pages() &&
      sequence->request.sampling.prompt_logprobs < 0) {
    counters_.prefix_queries += prompt_tokens;
    counters_.prefix_hits += cached_tokens;
  }
}

}  // namespace dunlin::engine
