#include "engine/engine_loop.h"

#include "engine/base/check.h"

namespace dunlin::engine {
namespace {

// Distinct profiles of one plan: every backend and precision of a device.
constexpr size_t kMaxSubBatches = size_t{2} * kernels::kNumAttentionBackends * kernels::kNumPrecisions;

}  // namespace

EngineLoop::EngineLoop(const EngineLoopParts& parts, const EngineOptions& options, int32_t max_live)
    : parts_(parts), ring_(static_cast<size_t>(parts.runtime->depth())) {
  const auto max_sequences = static_cast<size_t>(options.max_sequences);
  for (InFlightStep& step : ring_) {
    step.plan.sub_batches.reserve(kMaxSubBatches);
    step.plan.sequences.reserve(max_sequences);
  }
  result_.outputs.reserve(max_sequences);
  result_.prompt_scores.reserve(static_cast<size_t>(options.max_tokens_per_step));
  mail_.arrivals.reserve(static_cast<size_t>(max_live));
  mail_.endings.reserve(static_cast<size_t>(max_live));
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
  std::vector<Sequence*>& retired = parts_.scheduler->retired();
  parts_.inbox->SubtractLive(static_cast<int64_t>(retired.size()));
  parts_.inbox->Exchange(may_sleep, &retired, &mail_);
}

// Sleeps only when nothing is live. No timeout is needed then, and with anything live none is either: a step is in
// flight or can be launched, so deadlines are looked at after every step.
void EngineLoop::TakeMail() {
  const bool may_sleep = parts_.scheduler->empty() && num_in_flight_ == 0;
  Exchange(may_sleep);
  for (Sequence* sequence : mail_.arrivals) parts_.scheduler->Add(sequence);
  if (mail_.endings.empty()) return;
  const TimeNs now = parts_.clock();
  for (const Inbox::Ending& ending : mail_.endings) parts_.scheduler->End(ending.sequence, ending.reason, now);
}

absl::Status EngineLoop::Step() {
  const TimeNs now = parts_.clock();
  StepPlan& plan = slot(num_in_flight_).plan;
  parts_.scheduler->Plan(now, &plan);
  Publish();  // who was admitted has left the queue, however long the step takes
  if (!plan.empty()) {
    if (absl::Status status = Launch(now); !status.ok()) return status;
    if (num_in_flight_ < ring_.size()) return absl::OkStatus();  // room for another step before this one is collected
  }
  if (num_in_flight_ > 0) return CollectOldest();
  DUNLIN_CHECK(parts_.scheduler->empty(), "something that lives is in flight or can be planned");
  return absl::OkStatus();
}

// Launches the plan in the slot behind those in flight.
absl::Status EngineLoop::Launch(TimeNs now) {
  InFlightStep& step = slot(num_in_flight_);
  absl::StatusOr<StepHandle> handle = parts_.runtime->Launch(step.plan);
  if (!handle.ok()) return handle.status();
  step.handle = *handle;
  step.launched = now;
  ++num_in_flight_;
  return absl::OkStatus();
}

absl::Status EngineLoop::CollectOldest() {
  const InFlightStep& step = slot(0);
  result_.Clear();
  if (absl::Status status = parts_.runtime->Collect(step.handle, &result_); !status.ok()) return status;
  oldest_ = (oldest_ + 1) % ring_.size();
  --num_in_flight_;
  const TimeNs now = parts_.clock();
  parts_.scheduler->Commit(step.plan, result_, now);
  ++steps_;
  if (parts_.observer != nullptr) {
    parts_.observer->OnStep(step.plan.num_tokens, static_cast<int32_t>(step.plan.sequences.size()),
                            now - step.launched);
  }
  return absl::OkStatus();
}

void EngineLoop::Publish() {
  const SchedulerCounters& counters = parts_.scheduler->counters();
  parts_.inbox->SetDequeued(counters.dequeued_requests, counters.dequeued_tokens);
  parts_.counters->Publish(*parts_.scheduler, steps_);
}

// What is in flight is waited for, because the device still uses its pages, and then dropped.
absl::Status EngineLoop::Shutdown() {
  parts_.scheduler->EndAll(FinishReason::kShutdown, parts_.clock(), false);
  while (num_in_flight_ > 0) {
    if (absl::Status status = CollectOldest(); !status.ok()) return Fail(status);
  }
  Exchange(false);
  return absl::OkStatus();
}

// Nothing more can be computed. The door closes first, so that no request is left behind it.
absl::Status EngineLoop::Fail(const absl::Status& error) {
  parts_.counters->SetFailed();
  parts_.inbox->Fail();
  Exchange(false);
  for (Sequence* sequence : mail_.arrivals) parts_.scheduler->Add(sequence);
  parts_.scheduler->EndAll(FinishReason::kInternal, parts_.clock(), true);
  Exchange(false);
  return error;
}

}  // namespace dunlin::engine
