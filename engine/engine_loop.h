// What the engine thread does, step after step: take mail, plan, launch, collect, commit. Runs the device at the
// runtime's depth: at depth 1 a step is collected at once; at depth 2 the next one is planned while it runs.
// Allocates nothing after construction and frees nothing in a step.
// Thread rule: constructed anywhere; everything else on the engine thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "engine/engine.h"
#include "engine/engine_counters.h"
#include "engine/inbox.h"
#include "engine/runtime/runtime.h"
#include "engine/scheduler/scheduler.h"

namespace dunlin::engine {

// What the loop works with; all outlive it.
struct EngineLoopParts {
  Inbox* inbox;
  Scheduler* scheduler;
  Runtime* runtime;
  EngineCounters* counters;
  StepObserver* observer;  // may be null
  Engine::Clock clock;
};

class EngineLoop {
 public:
  EngineLoop(const EngineLoopParts& parts, const EngineOptions& options, int32_t max_live);

  // Serves until the inbox says stop or the device fails; then every live sequence has ended. OK, or the device's
  // error.
  absl::Status Run();

 private:
  struct InFlightStep {
    StepPlan plan;
    StepHandle handle = 0;
    TimeNs launched = 0;
  };

  void Exchange(bool may_sleep);
  void TakeMail();
  absl::Status Step();
  absl::Status Launch(TimeNs now);
  absl::Status CollectOldest();
  void Publish();
  absl::Status Shutdown();
  absl::Status Fail(const absl::Status& error);

  InFlightStep& slot(size_t index) { return ring_[(oldest_ + index) % ring_.size()]; }

  EngineLoopParts parts_;
  Inbox::Mail mail_;
  std::vector<InFlightStep> ring_;  // [depth]
  size_t oldest_ = 0;               // of the launched steps, an index of ring_
  size_t num_in_flight_ = 0;        // launched and not collected
  StepResult result_;
  uint64_t steps_ = 0;
};

}  // namespace dunlin::engine
