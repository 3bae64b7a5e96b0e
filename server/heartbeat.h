// Whether the engines live: an engine is well while its step counter moves or it is provably idle. One watchdog thread
// looks at the counters, so that a probe costs nothing and cannot itself hang.
// Thread rule: Watch before Start; the rest from any thread.
#pragma once

#include <memory>
#include <string>

#include "engine/model_engine.h"

namespace dunlin::server {

class Heartbeat {
 public:
  // stall_limit: an engine with work whose counter stands still for longer is sick.
  Heartbeat(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit);
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  // The engine outlives this object.
  void Watch(const std::string& model_name, const engine::ModelEngine* engine);
  void Start();

  // Empty when every engine is well; else what is wrong with the first that is not.
  std::string sick_reason() const;
  // Whether a device failed: nothing can be served any more, the process should end.
  bool failed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
