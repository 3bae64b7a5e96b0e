// The engine of one model: a bounded inbox, one thread that plans, launches, collects and commits steps, and sinks.
// Thread rule: all public functions may be called from any thread; none blocks on a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/model_config.h"
#include "engine/options.h"
#include "engine/runtime/runtime.h"
#include "engine/types.h"

namespace dunlin::engine {

// A snapshot for metrics and health; counters since start.
struct EngineStats {
  int32_t running = 0;
  int32_t waiting = 0;
  int32_t pages_used = 0;  // owned by sequences (cached pages that can be evicted are free)
  int32_t pages_total = 0;
  uint64_t steps = 0;   // completed; the liveness counter
  bool idle = true;     // nothing queued, running or in flight
  bool failed = false;  // the device failed; nothing is served any more
  uint64_t preemptions = 0;
  uint64_t prompt_tokens = 0;  // of admitted requests
  uint64_t prompt_tokens_cached = 0;
  uint64_t generation_tokens = 0;
  uint64_t prefix_queries = 0;  // tokens looked up
  uint64_t prefix_hits = 0;     // tokens found
};

// What happened in one step, for histograms. Called on the engine thread; neither blocks nor allocates.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void OnStep(int32_t num_tokens, int32_t num_sequences, TimeNs duration) = 0;
};

class Engine {
 public:
  // runtime: the model's. clock: monotonic nanoseconds, called on the engine thread around each step and by Submit for
  // a request whose arrival is 0. observer may be null and outlives the engine. Starts the engine thread.
  using Clock = TimeNs (*)();
  Engine(const EngineOptions& options, const ModelConfig& config, std::unique_ptr<Runtime> runtime, Clock clock,
         StepObserver* observer);
  // Stop(now) if still running.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Checks token ids, lengths and sampling bounds against this model; INVALID_ARGUMENT names field, value and limit,
  // also for a request that could never fit the KV pool. Pure; does not queue.
  absl::Status Validate(const Request& request) const;

  // Queues a validated request. RESOURCE_EXHAUSTED when the queue is full (requests or tokens), UNAVAILABLE when
  // draining or failed; the sink is then never called. Otherwise the sink hears OnFinish exactly once; the engine may
  // hold it until a later Submit or until it goes idle. REQUIRES: Validate(request) is OK.
  absl::StatusOr<RequestId> Submit(Request request, std::shared_ptr<OutputSink> sink);

  // Ends a request with `reason` (kCancelled, or kStop when the edge matched a stop string); its pages are free within
  // one step. Unknown and finished ids are ignored.
  void Cancel(RequestId id, FinishReason reason);

  // Refuses new requests from now on; what is queued and running goes on.
  void StartDraining();
  // Ends everything with kShutdown, joins the thread. Idempotent; never from a sink.
  void Stop();

  EngineStats stats() const;
  int32_t max_context_tokens() const;  // prompt + output

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::engine
