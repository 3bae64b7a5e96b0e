// SPDX-License-Identifier: Apache-2.0
// What the server needs of any engine: one thread that serves one model and can be drained, stopped and observed.
// Engine generates, EncoderEngine embeds. Thread rule: all public functions may be called from any thread.
#pragma once

#include <cstdint>

#include "engine/request/clock.h"
#include "engine/request/engine_stats.h"
#include "engine/request/step_observer.h"

namespace dunlin::engine {

class ModelEngine {
 public:
  using Clock = engine::Clock;

  virtual ~ModelEngine() = default;
  // Refuses new requests from now on; queued and running requests continue.
  virtual void StartDraining() = 0;
  // Ends everything with kShutdown, joins the thread. Idempotent. Must not be called from a sink.
  virtual void Stop() = 0;
  virtual EngineStats stats() const = 0;
  virtual int32_t max_context_tokens() const = 0;  // of one sequence or input
};

}  // namespace dunlin::engine
