// SPDX-License-Identifier: Apache-2.0
// Planning prompts: which is next, and how much of the step it gets. A sequence is started only if there are pages for
// all of its known tokens beyond what all running ones still need, so starting it preempts nobody.
#include <algorithm>
#include <limits>

#include "engine/request/tenant_share.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

// Running and waiting prompts, in the order of IsSooner.
void Scheduler::PlanPrefills(TimeNs now, int32_t tokens) {
  BeginTenantPlans(tokens);
  PrefillBudget budget = {.tokens = tokens, .behind_tokens = TokensBehind()};
  SetTimeLimit(&budget);
  PlanSharesOfOldest(&budget);
  StartDue(now, &budget);
  while (budget.tokens > 0) {
    Sequence* next = NextPrefill(budget);
    if (next == nullptr) return;
    const int32_t limit = LimitOf(*next, budget);
    if (next->state == SequenceState::kWaiting && !Start(next, now)) {
      next->tenant->plan.open_below[ProfileIndex(next->request.profile)] = next->request.priority;
    } else {
      PlanTokens(next, limit, &budget);
    }
  }
}

// Who has prompts, and in which order.
void Scheduler::OrderTenants(TimeNs now) {
  tenants_.Clear();
  for (const Sequence* sequence : running_) sequence->tenant->has_running_prompts |= sequence->prefills();
  tenants_.BeginPlan(now);
  const auto& ordered = tenants_.ordered();
  const bool some_behind = std::any_of(ordered.begin(), ordered.end(), [](const Tenant* t) { return t->is_behind; });
  others_served_ = some_behind && ServesOthers();
  yields_ = others_served_ && !yields_;
}

// Whether prompts of tenants that are not behind are computed, or are about to be.
bool Scheduler::ServesOthers() const {
  for (const Tenant* tenant : tenants_.ordered()) {
    if (tenant->is_behind) continue;
    const Sequence* oldest = waiting_.oldest(*tenant);
    const bool may_start = oldest != nullptr && oldest->blocked_pages < 0 && HasRoom(*tenant);
    if (may_start || tenant->has_running_prompts) return true;
  }
  return false;
}

void Scheduler::BeginTenantPlans(int32_t tokens) {
  for (Tenant* tenant : tenants_.ordered()) {
    const bool short_expected = tenant->long_since_short < int64_t{kStepsToForgetShort} * options_.max_tokens_per_step;
    tenant->plan = TenantPlan();
    tenant->plan.long_tokens = short_expected ? quarter() : tokens;
    tenant->plan.long_beside_short = quarter();
  }
}

// Tokens for all prompts of tenants that are behind. Beside prompts of others: a sixteenth of the step, or next to none
// in a step that yields to those. Else their prompts and decodes together get an eighth of the step.
int32_t Scheduler::TokensBehind() const {
  if (yields_) return std::max(1, options_.max_tokens_per_step / 64);
  if (others_served_) return std::max(1, options_.max_tokens_per_step / 16);
  int32_t decodes = 0;
  for (const Sequence* sequence : running_) decodes += sequence->tenant->is_behind ? sequence->num_planned : 0;
  return std::max({1, options_.max_tokens_per_step / 32, options_.max_tokens_per_step / 8 - decodes});
}

// Tokens that a prompt may be given.
int32_t Scheduler::LimitOf(const Sequence& sequence, const PrefillBudget& budget) const {
  int32_t limit = budget.tokens;
  if (sequence.tenant->is_behind) limit = std::min(limit, budget.behind_tokens);
  if (IsLong(sequence)) limit = std::min(limit, sequence.tenant->plan.long_limit());
  return limit;
}

// Only a sequence that has begun its output has a reader whom a long step would keep waiting.
void Scheduler::SetTimeLimit(PrefillBudget* budget) const {
  if (options_.step_time_target == 0) return;
  StepCost::Load load;
  for (const Sequence* sequence : running_) {
    budget->timed |= sequence->num_output() > 0;
    if (sequence->num_planned == 1) load.AddDecode(sequence->next_position());
    if (sequence->num_planned > 1) load.AddPrompt(sequence->next_position(), sequence->num_planned);
  }
  const double others = cost_.Predict(load);
  budget->time = std::max(static_cast<double>(options_.step_time_target) - others, others);
}

// A quarter of the step, of its tokens and its time, goes to the oldest running prompt; to one of a tenant that is
// behind, what those get.
void Scheduler::PlanSharesOfOldest(PrefillBudget* budget) {
  const double others = 0.75 * budget->time;
  budget->time -= others;
  for (Sequence* sequence : running_) {
    if (!sequence->prefills()) continue;
    const int32_t share = sequence->tenant->is_behind ? budget->behind_tokens : quarter();
    PlanTokens(sequence, std::min(budget->tokens, share), budget);
    if (!sequence->follows) break;
  }
  budget->time += others;
}

// A quarter goes to the oldest waiting prompt of a tenant once it is due, in one step to one.
void Scheduler::StartDue(TimeNs now, PrefillBudget* budget) {
  if (budget->tokens == 0 || waiting_.empty()) return;
  Sequence* due = nullptr;
  for (const Tenant* tenant : tenants_.ordered()) {
    Sequence* oldest = waiting_.oldest(*tenant);
    if (oldest == nullptr || !IsDue(*oldest) || !HasRoom(*tenant)) continue;
    if (due == nullptr || oldest->request.priority > due->request.priority) due = oldest;
  }
  if (due == nullptr || !Start(due, now)) return;
  int32_t limit = due->tenant->plan.long_beside_short;
  if (due->tenant->is_behind) limit = std::min(limit, budget->behind_tokens);
  PlanTokens(due, std::min(budget->tokens, std::max(1, limit)), budget);
}

// Whether `a` comes before `b`. Of a tenant, short prompts come before long ones of any profile, because they limit
// those.
bool Scheduler::IsSooner(const Sequence& a, const Sequence& b) const {
  if (a.request.priority != b.request.priority) return a.request.priority > b.request.priority;
  if (a.tenant != b.tenant) return a.tenant->rank < b.tenant->rank;
  if (IsLong(a) != IsLong(b)) return IsLong(b);
  const auto& served = a.tenant->plan.served;
  const bool a_served = served[ProfileIndex(a.request.profile)];
  const bool b_served = served[ProfileIndex(b.request.profile)];
  if (a_served != b_served) return b_served;
  if (a.num_uncomputed() != b.num_uncomputed()) return a.num_uncomputed() < b.num_uncomputed();
  return IsOlder(&a, &b);
}

// Null when nothing that can be planned is left: what has its tokens, waits for another's pages, is long while long
// prompts have had theirs, or finds no pages is passed over.
Sequence* Scheduler::NextPrefill(const PrefillBudget& budget) const {
  Sequence* next = nullptr;
  for (Sequence* sequence : running_) {
    const int32_t wanted = ChunkOf(*sequence, options_.max_tokens_per_step);
    if (!sequence->prefills() || sequence->follows || sequence->num_planned >= wanted) continue;
    if (LimitOf(*sequence, budget) == 0) continue;
    if (next == nullptr || IsSooner(*sequence, *next)) next = sequence;
  }
  if (waiting_.empty() || static_cast<int32_t>(running_.size()) == options_.max_sequences) return next;
  return NextWaiting(next, budget);
}

// `next`, or a waiting sequence that is sooner.
Sequence* Scheduler::NextWaiting(Sequence* next, const PrefillBudget& budget) const {
  int64_t held_back = std::numeric_limits<int64_t>::min();  // no later tenant starts one of at most this priority
  const auto consider = [&](Sequence* sequence) {
    if (sequence == nullptr || sequence->request.priority <= held_back || LimitOf(*sequence, budget) == 0) return;
    if (next == nullptr || IsSooner(*sequence, *next)) next = sequence;
  };
  for (const Tenant* tenant : tenants_.ordered()) {
    Sequence* oldest = waiting_.oldest(*tenant);
    if (oldest == nullptr || !HasRoom(*tenant)) continue;
    // No other one of the tenant has a higher priority.
    if (next != nullptr && next->tenant != tenant && !IsSooner(*oldest, *next)) continue;
    if (!IsDue(*oldest)) {
      for (size_t profile = 0; profile < kNumProfiles; ++profile) consider(NextShortest(*tenant, profile, budget));
    } else if (oldest->request.priority < tenant->plan.open_below[ProfileIndex(oldest->request.profile)]) {
      consider(oldest);
    } else {
      held_back = std::max<int64_t>(held_back, oldest->request.priority);
    }
  }
  return next;
}

// The shortest of the highest priority of which one can be planned.
Sequence* Scheduler::NextShortest(const Tenant& tenant, size_t profile, const PrefillBudget& budget) const {
  Sequence* shortest = waiting_.shortest_below(tenant, profile, tenant.plan.open_below[profile]);
  while (shortest != nullptr && LimitOf(*shortest, budget) == 0) {
    shortest = waiting_.shortest_below(tenant, profile, shortest->request.priority);
  }
  return shortest;
}

// At most `limit` tokens that keep to the step's time: whole pages or all that is left, and a page at least of the
// first prompt and of the first short one.
int32_t Scheduler::WithinTime(const Sequence& sequence, int32_t limit, const PrefillBudget& budget) const {
  if (!budget.timed) return limit;
  const int32_t page_tokens = sequence.tokens_per_page;
  const int32_t within = cost_.PromptTokensWithin(budget.time, sequence.next_position() + sequence.num_planned, limit);
  if (within == limit || within >= page_tokens) return within;
  const bool is_first = budget.empty || (!budget.short_served && !IsLong(sequence));
  return is_first ? std::min(limit, page_tokens) : 0;
}

// Plans at most `limit` more tokens of a running sequence, or has it wait for the pages of another. When the step has
// no time for more of a long prompt, it is over for long ones of the tenant; for a short one, for all.
void Scheduler::PlanTokens(Sequence* sequence, int32_t limit, PrefillBudget* budget) {
  const int32_t before = sequence->num_planned;
  const int32_t allowed = WithinTime(*sequence, ChunkOf(*sequence, before + limit) - before, *budget);
  if (before == 0) sequence->follows = Follows(*sequence, allowed);
  if (sequence->follows) return;
  Tenant* tenant = sequence->tenant;
  TenantPlan& plan = tenant->plan;
  if (allowed == 0) {
    (IsLong(*sequence) ? plan.long_tokens : budget->tokens) = 0;
    plan.long_beside_short = 0;
    return;
  }
  if (budget->timed) {
    StepCost::Load load;
    load.AddPrompt(sequence->next_position() + before, allowed);
    budget->time -= cost_.PredictPrompt(load);
  }
  sequence->num_planned = before + allowed;
  budget->empty = false;
  budget->tokens -= allowed;
  if (tenant->is_behind) budget->behind_tokens = std::max(0, budget->behind_tokens - allowed);
  plan.served[ProfileIndex(sequence->request.profile)] = true;
  if (IsLong(*sequence)) {
    plan.long_tokens = std::max(0, plan.long_tokens - allowed);
    plan.long_beside_short = std::max(0, plan.long_beside_short - allowed);
    tenant->long_since_short += allowed;
  } else {
    budget->short_served = true;
    plan.short_ends |= sequence->num_planned == sequence->num_uncomputed();
  }
}

int64_t Scheduler::MostWanted(const Sequence& sequence) const {
  const int64_t known_and_headroom = int64_t{sequence.num_tokens()} + sequence.tokens_per_page;
  const auto tokens = static_cast<int32_t>(std::min<int64_t>(known_and_headroom, sequence.max_kv_tokens()));
  const int32_t step_tokens = std::clamp(tokens - sequence.num_computed, 1, options_.max_tokens_per_step);
  return pages_.MostHeld(sequence, tokens, step_tokens);
}

// Pages that a sequence still needs for its known tokens and one page of tokens to come. Admission leaves these free
// for all running sequences, so that a new one is not preempted at once.
int64_t Scheduler::PagesToReserve(const Sequence& sequence) const {
  return std::max<int64_t>(MostWanted(sequence) - pages_.NumHeld(sequence), 0);
}

// Whether a tenant may have one more sequence: among several tenants the dynamic threshold of tenant_share.h applies.
bool Scheduler::HasRoom(const Tenant& tenant) const {
  return !tenants_.several() ||
         WithinDynamicThreshold(tenant.num_running, 1, static_cast<int64_t>(running_.size()), options_.max_sequences);
}

// Pages that a tenant leaves to others when it starts a sequence.
int64_t Scheduler::PagesToLeave(const Tenant& tenant) const {
  if (!tenants_.several() || tenant.num_running == 0) return 0;
  const bool has_its_part = static_cast<size_t>(tenant.num_running) * tenants_.num_known() > running_.size();
  return has_its_part ? num_usable_pages() / 8 : 0;
}

// Attaches the cached prefix of a waiting sequence, and the slot of a state, if there is room for the rest; else leaves
// it as it was.
bool Scheduler::AttachWithRoom(Sequence* sequence) {
  int64_t spare = pages_.pool().num_free() - PagesToLeave(*sequence->tenant);
  for (const Sequence* other : running_) spare -= PagesToReserve(*other);
  if (spare <= sequence->blocked_pages) return false;
  const int64_t free_before = pages_.pool().num_free();
  pages_.AttachCached(sequence);
  const bool has_pages = PagesToReserve(*sequence) <= spare - (free_before - pages_.pool().num_free());
  if (has_pages && pages_.TakeState(sequence)) return true;
  pages_.Release(sequence);
  if (!has_pages) sequence->blocked_pages = spare;
  return false;
}

bool Scheduler::Start(Sequence* sequence, TimeNs now) {
  if (static_cast<int32_t>(running_.size()) == options_.max_sequences) return false;
  if (!StartsInTime(*sequence, now) || !AttachWithRoom(sequence)) return false;
  sequence->begun_in_time = !running_.empty() && sequence->info.preemptions == 0;
  waiting_.EraseStarted(sequence, tenants_.ordered());
  running_.Insert(sequence);
  --sequence->tenant->num_waiting;
  ++sequence->tenant->num_running;
  sequence->state = SequenceState::kRunning;
  sequence->prefill_tokens = sequence->num_uncomputed();
  sequence->blocked_pages = -1;
  // Long prompts make room for short ones that are expected, but not for those of a lower priority.
  const bool outranked = std::any_of(running_.begin(), running_.end(), [&](const Sequence* other) {
    return other->tenant == sequence->tenant && other->prefills() && IsLong(*other) &&
           other->request.priority > sequence->request.priority;
  });
  if (sequence->num_tokens() <= quarter() && !outranked) sequence->tenant->long_since_short = 0;
  CountAdmission(sequence, now);
  return true;
}

void Scheduler::CountAdmission(Sequence* sequence, TimeNs now) {
  if (sequence->info.preemptions > 0) return;
  sequence->info.first_scheduled = now;
  sequence->info.cached_tokens = sequence->num_computed;
  const auto prompt_tokens = static_cast<uint64_t>(sequence->prompt_len);
  const auto cached_tokens = static_cast<uint64_t>(sequence->num_computed);
  CountDequeued(*sequence);
  counters_.prompt_tokens += prompt_tokens;
  counters_.prompt_tokens_cached += cached_tokens;
  if (pages_.shares() && sequence->request.profile.shares_pages() && sequence->request.sampling.prompt_logprobs < 0) {
    counters_.prefix_queries += prompt_tokens;
    counters_.prefix_hits += cached_tokens;
  }
}

}  // namespace dunlin::engine
