// SPDX-License-Identifier: Apache-2.0
#include "engine/loop/engine_loop.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/time/clock.h"
#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

// While paused: how late a deadline may be noticed.
constexpr absl::Duration kPausedTick = absl::Milliseconds(100);
// While all requests wait for pages of the pool: how late new ones may be noticed.
constexpr absl::Duration kGrowthTick = absl::Milliseconds(5);

}  // namespace

EngineLoop::EngineLoop(const EngineLoopParts& parts, const StepPlanLimits& limits)
    : parts_(parts),
      gate_(parts.scheduler, static_cast<size_t>(parts.mailbox->limits().max_live)),
      ring_(static_cast<size_t>(parts.runtime->depth())) {
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

void EngineLoop::Exchange(bool may_sleep, absl::Time wake) {
  Publish();
  parts_.mailbox->Exchange(may_sleep, &parts_.scheduler->retired(), &mail_, wake);
}

// Sleeps only when nothing is live, so it needs no timeout, or while paused, when it looks for deadlines, or while the
// pool has no pages for any request, when it looks for those. Otherwise a step is in flight or can be launched while
// anything is live, and deadlines are checked after every step.
void EngineLoop::TakeMail() {
  const bool live = !parts_.scheduler->empty() || gate_.holds_requests();
  const bool idle = num_in_flight_ == 0 && (gate_.stopped() || !live || awaits_pages_);
  const absl::Duration tick = gate_.stopped() ? kPausedTick : kGrowthTick;
  const absl::Time wake = idle && live ? absl::Now() + tick : absl::InfiniteFuture();
  const bool may_sleep = idle && PublishKvEvents(parts_.clock());
  Exchange(may_sleep && !(awaits_pages_ && PoolHasGrown()), wake);
  if (mail_.clear_cache) parts_.scheduler->ClearCache();
  std::span<Sequence* const> arrivals(mail_.arrivals);
  if (mail_.pause_changed) {
    gate_.Add(arrivals.first(mail_.arrivals_before_pause));
    arrivals = arrivals.subspan(mail_.arrivals_before_pause);
    gate_.Set(mail_.pause, parts_.clock());
  }
  gate_.Add(arrivals);
  if (mail_.endings.empty()) return;
  const TimeNs now = parts_.clock();
  for (const Mailbox<Sequence>::Ending& ending : mail_.endings) gate_.End(ending.work, ending.reason, now);
}

bool EngineLoop::PoolHasGrown() const {
  const KvPoolState pool = parts_.runtime->kv_pool();
  return pool.num_pages > parts_.scheduler->num_usable_pages() || !pool.grows;
}

absl::Status EngineLoop::Step() {
  awaits_pages_ = false;
  if (gate_.stopped()) {
    gate_.EndExpired(parts_.clock());
    return num_in_flight_ > 0 ? CollectOldest() : absl::OkStatus();
  }
  if (num_in_flight_ > 0 && !parts_.scheduler->CanPlan()) return CollectOldest();
  if (absl::Status status = Draft(); !status.ok()) return status;
  const TimeNs now = parts_.clock();
  StepPlan& plan = InFlight(num_in_flight_).plan;
  if (parts_.scheduler->pool_grows()) parts_.scheduler->SetPool(parts_.runtime->kv_pool());
  parts_.scheduler->Plan(now, &plan);
  parts_.masks->Push(&parts_.scheduler->advanced());
  Publish();  // before the step, so that admitted requests make room in the queue at once
  parts_.deadlines->Publish(*parts_.scheduler, now);
  if (!plan.empty()) {
    if (absl::Status status = Launch(now); !status.ok()) return status;
    if (num_in_flight_ < ring_.size()) return absl::OkStatus();  // room for another step before this one is collected
  }
  awaits_pages_ = num_in_flight_ == 0 && !parts_.scheduler->empty();
  if (num_in_flight_ > 0) return CollectOldest();
  DUNLIN_CHECK(!awaits_pages_ || parts_.scheduler->pool_grows(), "a live sequence is in flight or can be planned");
  return absl::OkStatus();
}

// Has a draft model guess for the next plan.
absl::Status EngineLoop::Draft() {
  const std::span<const DraftDemand> demands = parts_.scheduler->WantedDrafts();
  if (demands.empty()) return absl::OkStatus();
  const TimeNs began = parts_.clock();
  const absl::StatusOr<DraftWork> work = parts_.drafter->Draft(demands);
  if (!work.ok()) return work.status();
  parts_.scheduler->LearnDrafting(*work, parts_.clock() - began);
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
  const TimeNs elapsed = now - std::max(step.launched, std::exchange(collected_, now));
  parts_.counters->NoteStep(elapsed);
  if (parts_.observer != nullptr) {
    parts_.observer->OnStep(step.plan.num_tokens, static_cast<int32_t>(step.plan.sequences.size()), elapsed);
  }
  return absl::OkStatus();
}

void EngineLoop::Publish() {
  const SchedulerCounters& counters = parts_.scheduler->counters();
  parts_.mailbox->SetDequeued(counters.dequeued_requests, counters.dequeued_tokens);
  parts_.counters->Publish(*parts_.scheduler, steps_);
  parts_.deadlines->SetRunning(static_cast<int32_t>(parts_.scheduler->running().size()));
  parts_.counters->SetPaused(gate_.stopped() && num_in_flight_ == 0);
}

// False if a reader delays what has changed; the next step, or the next look for mail, publishes it.
bool EngineLoop::PublishKvEvents(TimeNs now) {
  return parts_.kv_events == nullptr || parts_.kv_events->Publish(parts_.scheduler->pages().cache(), now);
}

// Steps in flight are waited for, because the device still uses their pages; their results are dropped.
absl::Status EngineLoop::Shutdown() {
  gate_.Release();
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
  gate_.Add(mail_.arrivals);
  gate_.Release();
  parts_.scheduler->EndAll(FinishReason::kInternal, parts_.clock(), true);
  Exchange(false);
  parts_.mailbox->DestroyRetired();
  return error;
}

}  // namespace dunlin::engine
