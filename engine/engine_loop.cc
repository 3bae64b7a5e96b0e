// SPDX-License-Identifier: Apache-2.0
#include "engine/engine_loop.h"

#include "engine/base/check.h"

namespace dunlin::engine {

EngineLoop::EngineLoop(const EngineLoopParts& parts, const StepPlanLimits& limits)
    : parts_(parts), ring_(static_cast<size_t>(parts.runtime->depth())) {
  for (InFlightStep& step : ring_) step.plan.Reserve(limits);
  result_.Reserve(limits.max_sequences, limits.max_tokens);
  mail_.Reserve(parts.mailbox->limits());
}

absl::Status EngineLoop::Run() {
  while (true) {
    TakeMail();
    if (mail_.stop) return Shutdown();
    if (absl::Status status = Step(); !status.ok()) return Fail(status);
  }
}

void EngineLoop::Exchange(bool may_sleep) {
  Publish();
  parts_.mailbox->Exchange(may_sleep, &parts_.scheduler->retired(), &mail_);
}

// Sleeps only when nothing is live, so it needs no timeout. While anything is live a step is in flight or can be
// launched, and deadlines are checked after every step.
void EngineLoop::TakeMail() {
  const bool idle = parts_.scheduler->empty() && num_in_flight_ == 0;
  Exchange(idle && PublishKvEvents(parts_.clock()));
  if (mail_.clear_cache) parts_.scheduler->ClearCache();
  for (Sequence* sequence : mail_.arrivals) parts_.scheduler->Add(sequence);
  if (mail_.endings.empty()) return;
  const TimeNs now = parts_.clock();
  for (const Mailbox<Sequence>::Ending& ending : mail_.endings) {
    parts_.scheduler->End(ending.work, ending.reason, now);
  }
}

absl::Status EngineLoop::Step() {
  const TimeNs now = parts_.clock();
  StepPlan& plan = InFlight(num_in_flight_).plan;
  parts_.scheduler->Plan(now, &plan);
  Publish();  // before the step, so that admitted requests make room in the queue at once
  if (!plan.empty()) {
    if (absl::Status status = Launch(now); !status.ok()) return status;
    if (num_in_flight_ < ring_.size()) return absl::OkStatus();  // room for another step before this one is collected
  }
  if (num_in_flight_ > 0) return CollectOldest();
  DUNLIN_CHECK(parts_.scheduler->empty(), "a live sequence is in flight or can be planned");
  return absl::OkStatus();
}

// Launches the plan that was just made.
absl::Status EngineLoop::Launch(TimeNs now) {
  InFlightStep& step = InFlight(num_in_flight_);
  absl::StatusOr<StepHandle> handle = parts_.runtime->Launch(step.plan);
  if (!handle.ok()) return handle.status();
  step.handle = *handle;
  step.launched = now;
  ++num_in_flight_;
  return absl::OkStatus();
}

absl::Status EngineLoop::CollectOldest() {
  InFlightStep& step = InFlight(0);
  result_.Clear();
  if (absl::Status status = parts_.runtime->Collect(step.handle, &result_); !status.ok()) return status;
  oldest_ = (oldest_ + 1) % ring_.size();
  --num_in_flight_;
  const TimeNs now = parts_.clock();
  parts_.scheduler->Commit(step.plan, result_, now);
  step.plan.constraints.clear();  // while their sequences live, so that nothing is freed here
  PublishKvEvents(now);
  parts_.masks->Push(&parts_.scheduler->advanced());
  ++steps_;
  parts_.counters->NoteStep(now - step.launched);
  if (parts_.observer != nullptr) {
    parts_.observer->OnStep(step.plan.num_tokens, static_cast<int32_t>(step.plan.sequences.size()),
                            now - step.launched);
  }
  return absl::OkStatus();
}

void EngineLoop::Publish() {
  const SchedulerCounters& counters = parts_.scheduler->counters();
  parts_.mailbox->SetDequeued(counters.dequeued_requests, counters.dequeued_tokens);
  parts_.counters->Publish(*parts_.scheduler, steps_);
}

// False if a reader delays what has changed; the next step, or the next look for mail, publishes it.
bool EngineLoop::PublishKvEvents(TimeNs now) {
  return parts_.kv_events == nullptr || parts_.kv_events->Publish(parts_.scheduler->pages().cache(), now);
}

// Steps in flight are waited for, because the device still uses their pages; their results are dropped.
absl::Status EngineLoop::Shutdown() {
  parts_.scheduler->EndAll(FinishReason::kShutdown, parts_.clock(), false);
  while (num_in_flight_ > 0) {
    if (absl::Status status = CollectOldest(); !status.ok()) return Fail(status);
  }
  Exchange(false);
  parts_.mailbox->DestroyRetired();
  return absl::OkStatus();
}

// Nothing more can be computed. The mailbox closes first, so that no request is left in it.
absl::Status EngineLoop::Fail(const absl::Status& error) {
  parts_.counters->SetFailed();
  parts_.mailbox->Close(AcceptState::kFailed);
  Exchange(false);
  for (Sequence* sequence : mail_.arrivals) parts_.scheduler->Add(sequence);
  parts_.scheduler->EndAll(FinishReason::kInternal, parts_.clock(), true);
  Exchange(false);
  parts_.mailbox->DestroyRetired();
  return error;
}

}  // namespace dunlin::engine
