// SPDX-License-Identifier: Apache-2.0
// Deadlines before a sequence begins: one that could not end in time takes no step from those that can. What has begun
// goes on until its deadline.
//
// A sequence begins only into a batch in which it is expected to end in time, with a tenth to spare, so that the batch
// stays as small as the deadlines need, and only if none of those that run becomes late by it. Of those that began so,
// each that ends late makes its tenant's next ones be taken for 3% slower (Tenant::caution): outputs may be longer than
// their mean, and a tenant that is behind gets fewer steps. DeadlineGate has a copy of the forecast, so that most
// requests that would be late are refused before they are tokenised.
#include <algorithm>
#include <cmath>

#include "engine/request/tenant_share.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {
namespace {

// Of a tenant's sequences that began in time, one in ten to twenty ends late where these hold each other: at 80 ends a
// second caution falls by a fifth of what it is above 1, and each late one adds 3%.
constexpr double kCautionOfLate = 1.03;
constexpr double kMaxCaution = 4.0;
constexpr double kCautionFadeNs = 5e9;  // e-fold
// So many times the expected time is left to what runs when another one begins: half the margin that it began with.
constexpr double kRunMargin = 1.05;

// Nanoseconds by which a step becomes slower until the outputs of those that run are half written: the forecast knows
// steps as they are now, and many sequences that begin together attend to little at first.
double Growth(const SequenceList& running, const ServiceForecast& forecast, const StepCost& cost) {
  StepCost::Load load;
  for (const Sequence* sequence : running) {
    const int32_t middle = sequence->prompt_len + forecast.OutputsOf(sequence->request.stopping) / 2;
    load.decode_context += middle - sequence->next_position();
  }
  return load.decode_context > 0.0 ? cost.Predict(load) - cost.Predict({}) : 0.0;
}

}  // namespace

// Only what has not begun and has a deadline is held against it. What comes to an engine in which nothing runs begins
// whatever was learned, so that costs are learned again.
bool Scheduler::MayBeLate(const Sequence& sequence) const {
  if (sequence.request.deadline == kNoDeadline || sequence.info.preemptions > 0) return false;
  return !running_.empty() || sequence.request.arrival < last_commit_;
}

double Scheduler::CautionOf(const Tenant& tenant, TimeNs now) {
  const auto age = static_cast<double>(now - tenant.caution_time);
  return tenant.caution == 1.0 ? 1.0 : 1.0 + (tenant.caution - 1.0) * std::exp(-age / kCautionFadeNs);
}

// Learns from a sequence that ends, before it does. That one of those that began in time ends late makes its tenant's
// next ones wait longer: outputs are longer than expected, or other tenants take the steps.
void Scheduler::LearnEnd(const Sequence& sequence, FinishReason reason, TimeNs now) {
  if (reason == FinishReason::kDeadline && sequence.begun_in_time) {
    Tenant* tenant = sequence.tenant;
    tenant->caution = std::min(kMaxCaution, kCautionOfLate * CautionOf(*tenant, now));
    tenant->caution_time = now;
  }
  if (reason != FinishReason::kStop && reason != FinishReason::kLength) return;
  FinishInfo info = sequence.info;
  info.completion_tokens = sequence.num_output();
  info.finished = now;
  forecast_.LearnEnd(info, sequence.request.stopping, static_cast<int32_t>(running_.size()));
}

ServiceForecast::Demand Scheduler::DemandOf(const Sequence& sequence, TimeNs now) const {
  return {.outputs = forecast_.OutputsOf(sequence.request.stopping),
          .prompt_tokens = forecast_.UncachedOf(sequence.prompt_len),
          .caution = Outranks(sequence) ? 1.0 : kStartMargin * CautionOf(*sequence.tenant, now)};
}

// A batch that grows to its limit takes all the time that there is, so that most leave a margin. One that is before
// others, which run or wait, need not: the margin is theirs.
bool Scheduler::Outranks(const Sequence& sequence) const {
  const int32_t priority = sequence.request.priority;
  if (!running_.empty() && priority > running_.last()->request.priority) return true;
  return priority > waiting_.by_age().last()->request.priority;
}

// Whether a waiting sequence may begin; where nothing runs, any. The batch that its deadline allows is divided between
// tenants as all places are.
bool Scheduler::StartsInTime(const Sequence& sequence, TimeNs now) {
  if (running_.empty() || sequence.info.preemptions > 0) return true;
  const auto running = static_cast<int32_t>(running_.size());
  if (MayBeLate(sequence)) {
    const ServiceForecast::Demand demand = DemandOf(sequence, now);
    const double time =
        static_cast<double>(sequence.request.deadline - now) - demand.outputs * Growth(running_, forecast_, cost_);
    const int32_t batch =
        forecast_.LargestBatch(demand, time, options_.max_sequences, ServiceForecast::Beyond::kAtMost);
    if (running >= batch) return false;
    if (tenants_.several() && !WithinDynamicThreshold(sequence.tenant->num_running, 1, running, batch)) return false;
  }
  return LeavesOthersInTime(sequence, now);
}

// Whether those that run still end in time beside one more, whose prompt they wait for like for all prompts that have
// begun. One that ends late even if nothing else begins is past saving; one whose output is longer than expected may
// end at any time; one of a lower priority, or of a tenant that has more places than the newcomer's, has no claim.
bool Scheduler::LeavesOthersInTime(const Sequence& sequence, TimeNs now) {
  const double beside = forecast_.StepTime(static_cast<int32_t>(running_.size()) + 1, ServiceForecast::Beyond::kAtMost);
  double prompt_tokens = 0.0;
  for (const Sequence* other : running_) prompt_tokens += other->prefills() ? other->num_uncomputed() : 0;
  bool drained = false;
  for (const Sequence* other : running_) {
    if (other->request.deadline == kNoDeadline || other->request.priority < sequence.request.priority) continue;
    if (other->tenant != sequence.tenant && other->tenant->num_running > sequence.tenant->num_running + 1) continue;
    if (OutputsLeft(*other) == 0) continue;
    const auto time = static_cast<double>(other->request.deadline - now);
    const ServiceForecast::Demand rest = {.outputs = OutputsLeft(*other), .prompt_tokens = prompt_tokens};
    ServiceForecast::Demand with_newcomer = rest;
    with_newcomer.prompt_tokens += forecast_.UncachedOf(sequence.prompt_len);
    with_newcomer.caution = kRunMargin;
    if (forecast_.ServiceTime(with_newcomer, beside) <= time) continue;
    if (!drained) ForecastDrain();
    drained = true;
    if (TimeToDrain(rest.outputs) + forecast_.ServiceTime(rest, 0.0) <= time) return false;
  }
  return true;
}

// Tokens that a running sequence will probably still draw.
int32_t Scheduler::OutputsLeft(const Sequence& sequence) const {
  return std::max(0, forecast_.OutputsOf(sequence.request.stopping) - sequence.num_output());
}

// drain_: when those that run will have ended if no other one begins, in the order in which they do.
void Scheduler::ForecastDrain() {
  drain_.clear();
  for (const Sequence* sequence : running_) drain_.push_back({OutputsLeft(*sequence), 0.0});
  std::sort(drain_.begin(), drain_.end(), [](const Drain& a, const Drain& b) { return a.outputs < b.outputs; });
  int32_t outputs = 0;
  double time = 0.0;
  auto left = static_cast<int32_t>(drain_.size());
  for (Drain& drain : drain_) {
    if (drain.outputs > outputs) {
      time += (drain.outputs - outputs) * forecast_.StepTime(left, ServiceForecast::Beyond::kAtMost);
    }
    outputs = drain.outputs;
    drain.time = time;
    --left;
  }
}

double Scheduler::TimeToDrain(int32_t outputs) const {
  return std::lower_bound(drain_.begin(), drain_.end(), outputs,
                          [](const Drain& drain, int32_t value) { return drain.outputs < value; })
      ->time;
}

// Ends what does not fit while another one that does is there to begin, and, where nothing runs, what could not end in
// time alone. Else the batch may still shrink.
void Scheduler::EndLate(TimeNs now) {
  if (waiting_.empty() || nearest_deadline_ == kNoDeadline) return;
  const SequenceList& waiting = waiting_.by_age();
  const double beside = forecast_.StepTime(static_cast<int32_t>(running_.size()) + 1, ServiceForecast::Beyond::kAtMost);
  const auto fits = [&](const Sequence* sequence) {
    if (!MayBeLate(*sequence)) return true;
    ServiceForecast::Demand demand = DemandOf(*sequence, now);
    if (running_.empty()) demand.caution = 1.0;
    return forecast_.ServiceTime(demand, beside) <= static_cast<double>(sequence->request.deadline - now);
  };
  if (!running_.empty() && !std::any_of(waiting.begin(), waiting.end(), fits)) return;
  for (size_t i = waiting.size(); i-- > 0;) {
    if (!fits(waiting[i])) Finish(waiting[i], FinishReason::kDeadline, now);
  }
}

}  // namespace dunlin::engine
