// SPDX-License-Identifier: Apache-2.0
// Life of a sequence in the scheduler: adding, ending, retiring. Planning and committing have their own files.
#include "engine/scheduler/scheduler.h"

#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/sampling/banned_tokens.h"

namespace dunlin::engine {

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      pages_(options.cache, options.prefix_cache, options.prefill_matches_decode,
             options.max_page_sets_per_sequence > 0 ? options.max_page_sets_per_sequence : options.cache.num_pages,
             options.state_borders, options.pool),
      tenants_(options.max_live, options.max_tokens_per_step),
      waiting_(static_cast<size_t>(options.max_live), options.max_tokens_per_step),
      running_(static_cast<size_t>(options.max_sequences)),
      retiring_(static_cast<size_t>(options.max_live)),
      slots_(static_cast<size_t>(options.max_live)) {
  if (options.pool.has_value()) pool_grows_ = options.pool->grows;
  DUNLIN_CHECK(options.max_sequences >= 1 && options.max_tokens_per_step >= 1, "a step computes something");
  retired_.reserve(static_cast<size_t>(options.max_live));
  advanced_.reserve(static_cast<size_t>(options.max_sequences));
  committed_.reserve(static_cast<size_t>(options.max_sequences));
  demands_.reserve(static_cast<size_t>(options.max_batch_drafts));
  drain_.reserve(static_cast<size_t>(options.max_sequences));
  banned_.reserve(MaxBannedTokens(options.eos_token_ids.size()));
  for (int32_t slot = options.max_live; slot-- > 0;) free_slots_.push_back(slot);
}

void Scheduler::Add(Sequence* sequence) {
  DUNLIN_CHECK(sequence->state == SequenceState::kWaiting && sequence->pages.empty(), "only new sequences are added");
  DUNLIN_CHECK(pages_.MostHeld(*sequence, sequence->max_kv_tokens(), options_.max_tokens_per_step) <= num_pages(),
               "a sequence that cannot fit is refused by Validate");
  DUNLIN_CHECK(!free_slots_.empty(), "more live sequences than max_live");
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  slots_[static_cast<size_t>(sequence->slot)] = sequence;
  sequence->tenant = tenants_.Join(sequence->request.tenant, sequence->request.priority);
  StartModelDrafts(&sequence->drafts);
  waiting_.Insert(sequence);
  nearest_deadline_ = std::min(nearest_deadline_, sequence->request.deadline);
}

void Scheduler::End(Sequence* sequence, FinishReason reason, TimeNs now) {
  if (sequence->state == SequenceState::kWaiting || sequence->state == SequenceState::kRunning) {
    Finish(sequence, reason, now);
  }
}

void Scheduler::EndAll(FinishReason reason, TimeNs now, bool in_flight_lost) {
  while (!running_.empty()) Finish(running_.last(), reason, now);
  while (!waiting_.empty()) Finish(waiting_.by_age().last(), reason, now);
  if (!in_flight_lost) return;
  while (!retiring_.empty()) {
    retiring_.last()->num_in_flight = 0;
    pages_.LoseState(retiring_.last());
    Retire(retiring_.last());
  }
}

// It is scheduled for the first time, or has ended before that.
void Scheduler::CountDequeued(const Sequence& sequence) {
  const auto num_tokens = static_cast<uint64_t>(sequence.prompt_len);
  ++counters_.dequeued_requests;
  counters_.dequeued_tokens += num_tokens;
  if (sequence.queue_usage != nullptr) sequence.queue_usage->Dequeue(num_tokens);
}

void Scheduler::Finish(Sequence* sequence, FinishReason reason, TimeNs now) {
  LearnEnd(*sequence, reason, now);
  if (sequence->state == SequenceState::kWaiting) {
    waiting_.Erase(sequence);
    --sequence->tenant->num_waiting;
    if (sequence->info.preemptions == 0) CountDequeued(*sequence);
  } else {
    running_.Erase(sequence);
    --sequence->tenant->num_running;
  }
  std::exchange(sequence->tenant, nullptr)->last_live = now;
  sequence->info.reason = reason;
  sequence->info.completion_tokens = sequence->num_output();
  sequence->info.finished = now;
  sequence->state = SequenceState::kRetiring;
  retiring_.Insert(sequence);
  sequence->sink->OnFinish(sequence->info);
  if (sequence->num_in_flight == 0) Retire(sequence);
}

Sequence* Scheduler::SequenceOf(const SequenceStep& step) const {
  Sequence* sequence = slots_[static_cast<size_t>(step.sequence_slot)];
  DUNLIN_CHECK(sequence != nullptr && sequence->id == step.request_id, "a launched sequence keeps its slot");
  return sequence;
}

void Scheduler::Retire(Sequence* sequence) {
  retiring_.Erase(sequence);
  pages_.Release(sequence);
  sequence->state = SequenceState::kFinished;
  sequence->request.rows = nullptr;  // what is destroyed later holds no images
  slots_[static_cast<size_t>(sequence->slot)] = nullptr;
  free_slots_.push_back(sequence->slot);
  retired_.push_back(sequence);
}

}  // namespace dunlin::engine
