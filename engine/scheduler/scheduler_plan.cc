// Making a plan: budget first, then pages, then admission, then the sub-batches.
#include <algorithm>

#include "engine/base/check.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

void Scheduler::Plan(TimeNs now, StepPlan* plan) {
  plan->Clear();
  EndExpired(now);
  int32_t budget = options_.max_tokens_per_step;
  budget -= PlanDecodes(budget - ShareOfOldest(budget));
  budget -= PlanPrefills(budget);
  GivePages();
  Admit(now, budget);
  Fill(plan);
}

void Scheduler::EndExpired(TimeNs now) {
  if (now < nearest_deadline_) return;
  nearest_deadline_ = kNoDeadline;
  for (const SequenceList* list : {&waiting_, &running_}) {
    for (size_t i = list->size(); i-- > 0;) {
      Sequence* sequence = (*list)[i];
      if (sequence->request.deadline <= now) {
        Finish(sequence, FinishReason::kDeadline, now);
      } else {
        nearest_deadline_ = std::min(nearest_deadline_, sequence->request.deadline);
      }
    }
  }
}

int32_t Scheduler::ChunkOf(const Sequence& sequence, int32_t budget) const {
  int32_t limit = sequence.num_uncomputed();
  if (!options_.prefill_matches_decode) {
    const int32_t prompt_left = sequence.prompt_len - sequence.next_position();
    limit = prompt_left > 0 ? std::min(limit, prompt_left) : 1;
  }
  return std::min(limit, budget);
}

// Tokens kept from the decodes for the oldest sequence when it is in prefill: without them, as many decodes as the
// budget has tokens would stop it. A quarter keeps its prefill moving and costs nothing unless the budget is that
// tight.
int32_t Scheduler::ShareOfOldest(int32_t budget) const {
  for (const Sequence* sequence : running_) {
    if (sequence->num_uncomputed() == 0) continue;
    return sequence->num_uncomputed() == 1 ? 0 : ChunkOf(*sequence, std::max(1, budget / 4));
  }
  return 0;
}

int32_t Scheduler::PlanDecodes(int32_t budget) {
  int32_t used = 0;
  for (Sequence* sequence : running_) {
    if (used == budget) break;
    if (sequence->num_uncomputed() != 1) continue;
    sequence->num_planned = 1;
    ++used;
  }
  return used;
}

int32_t Scheduler::PlanPrefills(int32_t budget) {
  int32_t used = 0;
  for (Sequence* sequence : running_) {
    if (used == budget) break;
    if (sequence->num_uncomputed() <= 1) continue;
    sequence->num_planned = ChunkOf(*sequence, budget - used);
    used += sequence->num_planned;
  }
  return used;
}

// Oldest first, so that whoever is preempted has not been given pages in this plan. A chunk shrinks to the pages there
// are; only when not even one token fits does the newest go. Without anyone to preempt, a sequence stands still with
// what it has, and so do all newer ones: they are in flight, and can be preempted once that is committed.
void Scheduler::GivePages() {
  for (size_t i = 0; i < running_.size(); ++i) {
    Sequence* sequence = running_[i];
    if (sequence->num_planned == 0) continue;
    const int32_t first = sequence->next_position();
    const int32_t wanted = sequence->num_planned;
    int32_t covered = pages_.Reserve(sequence, first + wanted);
    while (covered <= first) {
      Sequence* newest = NewestIdleAfter(i);
      if (newest == nullptr) {
        for (; i < running_.size(); ++i) running_[i]->num_planned = 0;
        return;
      }
      Preempt(newest);
      covered = pages_.Reserve(sequence, first + wanted);
    }
    sequence->num_planned = std::min(covered - first, wanted);
  }
}

// The newest running sequence behind `index` whose pages no launched step uses; null when there is none.
Sequence* Scheduler::NewestIdleAfter(size_t index) const {
  for (size_t i = running_.size(); i-- > index + 1;) {
    if (running_[i]->num_in_flight == 0) return running_[i];
  }
  return nullptr;
}

void Scheduler::Preempt(Sequence* sequence) {
  running_.Erase(sequence);
  pages_.Release(sequence);
  sequence->num_planned = 0;
  sequence->state = SequenceState::kWaiting;
  ++sequence->info.preemptions;
  ++counters_.preemptions;
  waiting_.Insert(sequence);
}

// Pages a sequence is still going to take for what is known of it and one page of tokens to come. Admission leaves
// these free for everyone running: it is the watermark that keeps a new sequence from being preempted at once.
int64_t Scheduler::PagesToReserve(const Sequence& sequence) const {
  const int64_t known_and_headroom = int64_t{sequence.num_tokens()} + sequence.tokens_per_page;
  const auto tokens = static_cast<int32_t>(std::min<int64_t>(known_and_headroom, sequence.max_kv_tokens()));
  const int64_t missing =
      int64_t{PagesFor(tokens, sequence.tokens_per_page)} - static_cast<int64_t>(sequence.pages.size());
  return std::max<int64_t>(missing, 0);
}

// Attaches what the cache has of a waiting sequence if there is room for the rest; else leaves it as it was.
bool Scheduler::Start(Sequence* sequence) {
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

// Strictly in order: a sequence that does not fit holds up those behind it, so that a large one is not starved.
void Scheduler::Admit(TimeNs now, int32_t budget) {
  while (budget > 0 && !waiting_.empty() && static_cast<int32_t>(running_.size()) < options_.max_sequences) {
    Sequence* sequence = waiting_.oldest();
    if (!Start(sequence)) return;
    waiting_.Erase(sequence);
    running_.Insert(sequence);
    sequence->state = SequenceState::kRunning;
    CountAdmission(sequence, now);
    sequence->num_planned = ChunkOf(*sequence, budget);
    const int32_t end = sequence->next_position() + sequence->num_planned;
    DUNLIN_CHECK(pages_.Reserve(sequence, end) >= end, "Start has made sure of the pages");
    budget -= sequence->num_planned;
  }
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

// Groups what was planned by profile. Profiles stand in the order of their oldest sequence; inside one, decodes stand
// before prefill chunks, each oldest first.
void Scheduler::Fill(StepPlan* plan) {
  const auto batch_of = [plan](const Sequence& sequence) {
    return std::find_if(plan->sub_batches.begin(), plan->sub_batches.end(),
                        [&sequence](const SubBatch& batch) { return batch.profile == sequence.request.profile; });
  };
  size_t num_sequences = 0;
  for (const Sequence* sequence : running_) {
    if (sequence->num_planned == 0) continue;
    auto batch = batch_of(*sequence);
    if (batch == plan->sub_batches.end()) {
      plan->sub_batches.push_back({sequence->request.profile, 0, 0, 0});
      batch = plan->sub_batches.end() - 1;
    }
    ++batch->num_sequences;
    batch->num_tokens += sequence->num_planned;
    plan->num_tokens += sequence->num_planned;
    ++num_sequences;
  }
  int32_t first = 0;
  for (SubBatch& batch : plan->sub_batches) {
    batch.first_sequence = first;
    first += batch.num_sequences;
    batch.num_sequences = 0;  // counted again while its sequences are placed
  }
  plan->sequences.resize(num_sequences);
  for (const bool decodes : {true, false}) {
    for (Sequence* sequence : running_) {
      if (sequence->num_planned == 0 || (sequence->num_uncomputed() == 1) != decodes) continue;
      const auto batch = batch_of(*sequence);
      const int32_t index = batch->first_sequence + batch->num_sequences++;
      plan->sequences[static_cast<size_t>(index)] = {sequence, sequence->next_position(), sequence->num_planned,
                                                     sequence->num_planned == sequence->num_uncomputed()};
    }
  }
  for (const SequenceStep& step : plan->sequences) {
    step.sequence->num_in_flight += step.num_tokens;
    step.sequence->num_planned = 0;
  }
}

}  // namespace dunlin::engine
