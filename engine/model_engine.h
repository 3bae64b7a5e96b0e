// What every engine is to the server, whatever it computes: one thread that serves one model, can be drained, stopped
// and looked at. Engine generates, EncoderEngine embeds. Thread rule: all public functions may be called from any
// thread.
#pragma once

#include <cstdint>

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
  uint64_t prefix_queries = 0;          // tokens looked up
  uint64_t prefix_hits = 0;             // tokens found
  size_t device_memory_peak_bytes = 0;  // of the device, over all its models; 0: nothing is known of it
};

// What happened in one step, for histograms. Called on the engine thread; neither blocks nor allocates.
class StepObserver {
 public:
  virtual ~StepObserver() = default;
  virtual void OnStep(int32_t num_tokens, int32_t num_sequences, TimeNs duration) = 0;
};

class ModelEngine {
 public:
  // Monotonic nanoseconds.
  using Clock = TimeNs (*)();

  virtual ~ModelEngine() = default;
  // Refuses new requests from now on; what is queued and running goes on.
  virtual void StartDraining() = 0;
  // Ends everything with kShutdown, joins the thread. Idempotent; never from a sink.
  virtual void Stop() = 0;
  virtual EngineStats stats() const = 0;
  virtual int32_t max_context_tokens() const = 0;  // of one sequence or input
};

}  // namespace dunlin::engine
