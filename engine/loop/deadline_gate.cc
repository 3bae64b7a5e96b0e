// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/deadline_gate.h"

#include <algorithm>

#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {
namespace {

constexpr auto kBeyond = ServiceForecast::Beyond::kAtLeast;

}  // namespace

void DeadlineGate::Rows::Count(TenantId tenant, int32_t priority, int32_t more) {
  for (size_t i = 0; i < size; ++i) {
    if (rows[i].tenant != tenant || rows[i].priority != priority) continue;
    rows[i].count = std::max(0, rows[i].count + more);
    return;
  }
  if (more > 0 && size < rows.size()) rows[size++] = {tenant, priority, more};
}

void DeadlineGate::Publish(const Scheduler& scheduler, TimeNs now) {
  Rows waiting;
  for (const Sequence* sequence : scheduler.waiting()) {
    waiting.Count(sequence->request.tenant, sequence->request.priority, 1);
  }
  MutexLock lock(&mutex_);
  waiting_ = waiting;
  running_ = static_cast<int32_t>(scheduler.running().size());
  if (running_ > 0) lowest_running_priority_ = scheduler.running().last()->request.priority;
  if (now - learned_ >= kLearnInterval) Learn(scheduler, now);
}

void DeadlineGate::Learn(const Scheduler& scheduler, TimeNs now) {
  learned_ = now;
  forecast_ = scheduler.forecast();
  cautions_ = {};
  size_t num_cautions = 0;
  for (const Tenant* tenant : scheduler.tenants().known()) {
    const double caution = Scheduler::CautionOf(*tenant, now);
    if (caution > 1.0 && num_cautions < cautions_.size()) cautions_[num_cautions++] = {tenant->id, caution};
  }
}

void DeadlineGate::SetRunning(int32_t running) {
  MutexLock lock(&mutex_);
  running_ = running;
}

void DeadlineGate::OnSubmit(TenantId tenant, int32_t priority) {
  MutexLock lock(&mutex_);
  waiting_.Count(tenant, priority, 1);
}

void DeadlineGate::OnRefused(TenantId tenant, int32_t priority) {
  MutexLock lock(&mutex_);
  waiting_.Count(tenant, priority, -1);
}

// Whether others, which run or wait, come after it: they have the margin, as in the scheduler.
bool DeadlineGate::Outranks(int32_t priority) const {
  if (running_ > 0 && priority > lowest_running_priority_) return true;
  return std::any_of(waiting_.begin(), waiting_.end(), [priority](const Row& row) { return row.priority < priority; });
}

// Of tenants with equal priority each has its turn, so that of another one at most as many come before it as its own
// tenant has waiting.
int32_t DeadlineGate::Ahead(const DeadlineDemand& demand) const {
  int32_t own = 0;
  for (const Row& row : waiting_) {
    if (row.priority == demand.priority && row.tenant == demand.tenant) own = row.count;
  }
  int32_t ahead = own;
  for (const Row& row : waiting_) {
    if (row.priority > demand.priority) ahead += row.count;
    if (row.priority == demand.priority && row.tenant != demand.tenant) ahead += std::min(row.count, own);
  }
  return ahead;
}

// It runs at once if the batch has room for it, as far as its own deadline allows; else it waits until as many others
// have ended as are too many.
std::optional<DeadlineMiss> DeadlineGate::Check(const DeadlineDemand& demand, TimeNs now) const {
  if (demand.deadline == kNoDeadline || demand.deadline <= now) return std::nullopt;
  MutexLock lock(&mutex_);
  const int32_t ahead = Ahead(demand);
  if (running_ == 0 && ahead == 0) return std::nullopt;
  ServiceForecast::Demand service = {.outputs = forecast_.OutputsOf(demand.stopping)};
  const double margin = Outranks(demand.priority) ? 1.0 : Scheduler::kStartMargin;
  for (const Caution& caution : cautions_) {
    if (caution.tenant == demand.tenant && margin > 1.0) service.caution = std::max(service.caution, caution.value);
  }
  const auto left = static_cast<double>(demand.deadline - now);
  const int32_t wanted = running_ + ahead + demand.num_outputs;
  const int32_t batch = forecast_.LargestBatch(service, left / margin, std::min(wanted, max_sequences_), kBeyond);
  const double service_time = forecast_.ServiceTime(service, forecast_.StepTime(std::max(1, batch), kBeyond));
  const double wait = (wanted - batch) * forecast_.EndInterval(service_time, batch);
  if (batch > 0 && wait + service_time <= left) return std::nullopt;
  return DeadlineMiss{.expected = static_cast<TimeNs>(wait + service_time), .running = running_, .ahead = ahead};
}

}  // namespace dunlin::engine
