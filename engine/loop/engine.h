// SPDX-License-Identifier: Apache-2.0
// The engine of one decoder: a bounded mailbox, one thread that plans, launches, collects and commits steps, and one
// that computes the masks of constrained outputs. Thread rule: all public functions may be called from any thread; none
// blocks on a step.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cache/kv_events.h"
#include "engine/loop/arrival_gate.h"
#include "engine/loop/deadline_gate.h"
#include "engine/loop/validate.h"
#include "engine/model/spec/model_config.h"
#include "engine/request/model_engine.h"
#include "engine/request/options.h"
#include "engine/request/types.h"
#include "engine/runtime/runtime.h"
#include "engine/speculation/batch_drafter.h"

namespace dunlin::engine {

class Engine final : public ModelEngine {
 public:
  // runtime: the model's. clock: monotonic nanoseconds, called on the engine thread around each step and by Submit for
  // a request whose arrival is 0. observer may be null and outlives the engine. drafter: of requests that speculate;
  // null: they look their guesses up. Starts the engine thread.
  Engine(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<Runtime> runtime, Clock clock,
         StepObserver* observer, std::unique_ptr<BatchDrafter> drafter = nullptr);
  // Stop(now) if still running.
  ~Engine() override;
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // What CheckParams and CheckPrompt hold a request against. Constant, but that num_pages is once replaced by fewer
  // where the pool has got less memory than planned; what was returned stays valid.
  const RequestLimits& limits() const;
  // Both of them: INVALID_ARGUMENT names field, value and limit, also for a request that could never fit the KV pool.
  // Pure; does not queue.
  absl::Status Validate(const Request& request) const;

  // Queues a validated request. RESOURCE_EXHAUSTED when the queue is full (requests or tokens), UNAVAILABLE when
  // draining, INTERNAL when the device failed; the sink is then never called. Otherwise its OnFinish is called exactly
  // once; the engine may hold the sink until a later Submit or until it goes idle. REQUIRES: Validate(request) is OK.
  // A request with a constraint that is not refused has its first mask computed here, some milliseconds at most.
  absl::StatusOr<RequestId> Submit(Request request, std::shared_ptr<OutputSink> sink);

  // Whether a request would end after its deadline, before it is made and submitted; an estimate. Nullopt: it may not.
  std::optional<DeadlineMiss> CheckDeadline(const DeadlineDemand& demand) const;

  // Ends a request with `reason` (kCancelled, or kStop when the server found a stop string); its pages are free within
  // one step. Unknown and finished ids are ignored.
  void Cancel(RequestId id, FinishReason reason);

  // Stops computing steps: soon, or with kWait once the requests in progress have ended; stats().paused tells. Requests
  // are accepted as before, and wait. A second call changes the mode.
  void Pause(PauseMode mode);
  void Resume();

  // Empties the prefix cache within one step. Requests in progress keep their pages.
  void ClearPrefixCache();
  // What enters and leaves the prefix cache; null without EngineOptions::kv_events. Outlives the engine in its holders.
  std::shared_ptr<KvEventLog> kv_events() const;

  // Refuses new requests from now on; queued and running requests continue.
  void StartDraining() override;
  // Ends everything with kShutdown, joins the thread. Idempotent. Must not be called from a sink.
  void Stop() override;

  EngineStats stats() const override;
  int32_t max_context_tokens() const override;  // prompt + output

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::engine
