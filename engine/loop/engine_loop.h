// SPDX-License-Identifier: Apache-2.0
// What the engine thread does, step after step: take mail, guess, plan, launch, collect, commit, and hand the masks
// that follow the new tokens to the mask thread. Keeps as many steps in flight as the runtime's depth: at depth 1 a
// step is collected at once; at depth 2 the next one is planned while it runs, where the scheduler can (CanPlan).
// Allocates nothing after construction and frees nothing in a step, but for masks that it computes itself because the
// mask thread has not begun to: a constraint's state may do both. Thread rule: constructed anywhere; everything else on
// the engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "engine/cache/kv_events.h"
#include "engine/loop/arrival_gate.h"
#include "engine/loop/deadline_gate.h"
#include "engine/loop/engine_counters.h"
#include "engine/loop/mailbox.h"
#include "engine/loop/mask_thread.h"
#include "engine/plan/step_plan.h"
#include "engine/plan/step_result.h"
#include "engine/request/clock.h"
#include "engine/request/step_observer.h"
#include "engine/runtime/runtime.h"
#include "engine/scheduler/scheduler.h"
#include "engine/speculation/batch_drafter.h"

namespace dunlin::engine {

// What the loop works with; all outlive it.
struct EngineLoopParts {
  Mailbox<Sequence>* mailbox;
  Scheduler* scheduler;
  Runtime* runtime;
  MaskThread* masks;
  EngineCounters* counters;
  DeadlineGate* deadlines;
  StepObserver* observer;  // may be null
  KvEventLog* kv_events;   // may be null
  Clock clock;
  BatchDrafter* drafter = nullptr;  // may be null
};

class EngineLoop {
 public:
  // limits: of the largest plan.
  EngineLoop(const EngineLoopParts& parts, const StepPlanLimits& limits);

  // Serves until the mailbox says stop or the device fails; then every live sequence has ended. OK, or the device's
  // error.
  absl::Status Run();
  // Whether nothing was in flight after the last step, and no live sequence could get pages of a pool that grows.
  bool awaits_pages() const { return awaits_pages_; }

 private:
  struct InFlightStep {
    StepPlan plan;
    StepHandle handle = 0;
    TimeNs launched = 0;
  };

  void Exchange(bool may_sleep, absl::Time wake = absl::InfiniteFuture());
  void TakeMail();
  bool PoolHasGrown() const;
  absl::Status Step();
  absl::Status Draft();
  absl::Status Launch(TimeNs now);
  absl::Status CollectOldest();
  void Publish();
  bool PublishKvEvents(TimeNs now);
  absl::Status Shutdown();
  absl::Status Fail(const absl::Status& error);

  // The step launched `index` steps after the oldest one in flight.
  InFlightStep& InFlight(size_t index) { return ring_[(oldest_ + index) % ring_.size()]; }

  EngineLoopParts parts_;
  Mailbox<Sequence>::Mail mail_;
  ArrivalGate gate_;
  std::vector<InFlightStep> ring_;  // [depth]
  size_t oldest_ = 0;               // index in ring_ of the oldest launched step
  size_t num_in_flight_ = 0;        // launched and not yet collected
  TimeNs collected_ = 0;            // when the last step was, before which the device began no other
  bool awaits_pages_ = false;
  StepResult result_;
  uint64_t steps_ = 0;
};

}  // namespace dunlin::engine
