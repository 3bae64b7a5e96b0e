// SPDX-License-Identifier: Apache-2.0
// Making a plan: decodes, prompts, pages, then the sub-batches.
#include <algorithm>
#include <utility>

#include "engine/base/check.h"
#include "engine/plan/sequence_view.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

void Scheduler::Plan(TimeNs now, StepPlan* plan) {
  plan->Clear();
  plan->planned = now;
  advanced_.clear();
  EndExpired(now);
  EndUnfit(now);
  TakePublishedPages();
  forecast_.Forget(now);
  EndLate(now);
  OrderTenants(now);
  const int32_t budget = options_.max_tokens_per_step;
  const int32_t decodes = PlanDecodes(budget - ShareOfOldest());
  PlanPrefills(now, budget - decodes);
  ReservePages();
  PlanDrafts();
  Fill(plan);
}

void Scheduler::EndExpired(TimeNs now) {
  if (now < nearest_deadline_) return;
  nearest_deadline_ = kNoDeadline;
  for (const SequenceList* list : {&waiting_.by_age(), &std::as_const(running_)}) {
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

void Scheduler::SetPool(const KvPoolState& pool) {
  pages_.Grow(pool.num_pages);
  pool_grows_ = pool.grows;
}

// A pool that has got less memory than planned: those that were admitted for the planned one and cannot go on.
void Scheduler::EndUnfit(TimeNs now) {
  if (pool_grows_ || num_usable_pages() == num_pages()) return;
  for (const SequenceList* list : {&waiting_.by_age(), &std::as_const(running_)}) {
    for (size_t i = list->size(); i-- > 0;) {
      if (!Fits(*(*list)[i])) Finish((*list)[i], FinishReason::kPoolTooSmall, now);
    }
  }
}

int32_t Scheduler::ChunkOf(const Sequence& sequence, int32_t budget) const {
  int32_t limit = sequence.num_uncomputed();
  if (!options_.prefill_matches_decode) {
    const int32_t prompt_left = sequence.prompt_len - sequence.next_position();
    limit = prompt_left > 0 ? std::min(limit, prompt_left) : 1;
  }
  const int32_t until_border = sequence.states.border - sequence.next_position();
  if (until_border > 0) limit = std::min(limit, until_border);
  return std::min(limit, budget);
}

bool Scheduler::CanPlan() const {
  if (!options_.plan_ahead) return true;
  return std::all_of(running_.begin(), running_.end(), [this](const Sequence* sequence) {
    return sequence->num_draws() == 0 || EndsByLength(*sequence) || GoesOn(*sequence);
  });
}

// Whether the draw in flight is the last one, whatever it gives.
bool Scheduler::EndsByLength(const Sequence& sequence) const {
  return sequence.num_output() + sequence.num_draws() >= sequence.request.stopping.max_tokens;
}

// Whether the token that is being drawn can be computed before it is known. If it ends the output, its row is computed
// in vain, and nobody sees it. Not where the next draw depends on the token by more than its row, where a row in vain
// would change a scale or be guessed at, or where the draw may have to be repeated.
bool Scheduler::GoesOn(const Sequence& sequence) const {
  if (sequence.num_draws() != 1 || EndsByLength(sequence)) return false;
  return sequence.constrained == nullptr && sequence.drafts.drafter == nullptr && !sequence.counts.started() &&
         sequence.request.sampling.bad_words.empty() && !sequence.on_trial && sequence.request.profile.shares_pages();
}

// Tokens withheld from the decodes for the oldest prompt: without them, as many decodes as the budget has tokens would
// stop it. They matter only when the budget is that tight. If an older sequence decodes, its token comes first.
int32_t Scheduler::ShareOfOldest() const {
  bool oldest_of_all = true;
  for (const Sequence* sequence : running_) {
    if (sequence->prefills()) {
      return std::min(ChunkOf(*sequence, quarter()), options_.max_tokens_per_step - (oldest_of_all ? 0 : 1));
    }
    oldest_of_all = oldest_of_all && sequence->num_uncomputed() <= 0 && !(options_.plan_ahead && GoesOn(*sequence));
  }
  return 0;
}

// In a step that yields to another tenant, of the tenants that are behind only the oldest sequence decodes.
int32_t Scheduler::PlanDecodes(int32_t budget) {
  int32_t used = 0;
  const Sequence* oldest = running_.empty() ? nullptr : running_[0];
  for (Sequence* sequence : running_) {
    if (used == budget) break;
    if (!sequence->decodes() && !(options_.plan_ahead && GoesOn(*sequence))) continue;
    if (yields_ && sequence->tenant->is_behind && sequence != oldest) continue;
    sequence->num_planned = 1;
    ++used;
  }
  int32_t forced = std::min(quarter(), budget - used);
  for (Sequence* sequence : running_) {
    if (sequence->num_planned == 0) continue;
    const int32_t more = std::clamp(ChunkOf(*sequence, options_.max_tokens_per_step) - 1, 0, forced);
    sequence->num_planned += more;
    forced -= more;
    used += more;
  }
  return used;
}

// Oldest first, so that a preempted sequence has not been given pages in this plan. A chunk shrinks to the free pages;
// only when not even one token fits is the newest sequence preempted. If none can be, this sequence and all newer ones
// keep their pages and compute nothing: the newer ones are in flight, and can be preempted once that is committed.
void Scheduler::ReservePages() {
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

// The newest running sequence after `index` whose pages no launched step uses; null when there is none.
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
  --sequence->tenant->num_running;
  ++sequence->tenant->num_waiting;
  ++sequence->info.preemptions;
  ++counters_.preemptions;
  waiting_.Insert(sequence);
}

// Groups what was planned by profile. Profiles come in the order of their oldest sequence; within one, decodes come
// before prefill chunks, those of one token before those of several, each oldest first, because a device may use
// different kernels for them.
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
      plan->sub_batches.push_back({sequence->request.profile, 0, 0, 0, 0});
      batch = plan->sub_batches.end() - 1;
    }
    const int32_t num_tokens = sequence->num_planned + sequence->drafts.num_planned;
    ++batch->num_sequences;
    batch->num_tokens += num_tokens;
    plan->num_tokens += num_tokens;
    ++num_sequences;
  }
  int32_t first = 0;
  for (SubBatch& batch : plan->sub_batches) {
    batch.first_sequence = first;
    first += batch.num_sequences;
    batch.num_sequences = 0;  // counted again while its sequences are placed
  }
  plan->sequences.resize(num_sequences);
  const auto group_of = [](const Sequence& sequence) {
    if (sequence.next_position() < sequence.prompt_len) return 2;
    return sequence.num_planned + sequence.drafts.num_planned > 1 ? 1 : 0;
  };
  for (const int group : {0, 1, 2}) {
    for (Sequence* sequence : running_) {
      if (sequence->num_planned == 0 || group_of(*sequence) != group) continue;
      const auto batch = batch_of(*sequence);
      if (group < 2) batch->num_decode_tokens += sequence->num_planned + sequence->drafts.num_planned;
      const int32_t index = batch->first_sequence + batch->num_sequences++;
      FillStepOf(sequence, &plan->sequences[static_cast<size_t>(index)], plan);
    }
  }
  for (Sequence* sequence : running_) {
    if (sequence->num_planned > 0) pages_.EndPlan(sequence);
    Tenants::Charge(sequence->num_planned + std::exchange(sequence->drafts.num_planned, 0), sequence->tenant);
    sequence->num_in_flight += std::exchange(sequence->num_planned, 0);
  }
}

// While the step is filled the drafts stand behind the known tokens, for which the sequence has room, or any token in
// place of the one that is being drawn.
void Scheduler::FillStepOf(Sequence* sequence, SequenceStep* step, StepPlan* plan) {
  const size_t num_known = sequence->tokens.size();
  const bool is_drawn = sequence->next_position() == static_cast<int32_t>(num_known);
  if (is_drawn) sequence->tokens.push_back(0);
  const StepShare share{.first_position = sequence->next_position(),
                        .num_tokens = sequence->num_planned,
                        .samples = sequence->num_planned == sequence->num_uncomputed(),
                        .num_drafts = sequence->drafts.num_planned,
                        .drawn_by = is_drawn ? sequence->plan_index : -1};
  const auto drafts = sequence->drafts.guesses.begin();
  sequence->tokens.insert(sequence->tokens.end(), drafts, drafts + share.num_drafts);
  FillStep(ViewOf(*sequence, pages_.PlanState(sequence, share.num_tokens)), share, step, plan);
  sequence->tokens.resize(num_known);
  sequence->plan_index = static_cast<int32_t>(step - plan->sequences.data());
}

SequenceView Scheduler::ViewOf(const Sequence& sequence, const StateView& state) const {
  return {.request_id = sequence.id,
          .sequence_slot = sequence.slot,
          .tokens = sequence.tokens,
          .prompt_len = sequence.prompt_len,
          .rows = sequence.request.rows.get(),
          .pages = sequence.pages,
          .sampling = sequence.request.sampling,
          .stopping = sequence.request.stopping,
          .counts = sequence.counts.list(),
          .output_index = sequence.request.output_index,
          .state = state,
          .next_scored_position = sequence.next_scored_position,
          .eos_token_ids = options_.eos_token_ids,
          .constrained = sequence.constrained,
          .adapter = sequence.request.adapter.adapter.get()};
}

}  // namespace dunlin::engine
