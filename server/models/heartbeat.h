// SPDX-License-Identifier: Apache-2.0
// The watchdog: a part of the server is healthy while the counter of its work advances or it is provably idle. One
// thread looks at the engine of every model in the repository and at every other part that Watch names, so that health
// probes cost nothing and cannot hang.
// Time is counted from look to look, and a look that comes late counts as a short one: a process that was stopped and
// continued, this thread with it, has not stalled.
// Thread rule: any thread; Start once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/request/model_engine.h"
#include "server/models/repository.h"

namespace dunlin::server {

class Heartbeat : public RepositoryListener {
 public:
  enum class Part : uint8_t { kEngine, kTextPool, kTransport };

  struct Pulse {
    uint64_t count = 0;  // of work that is done
    bool idle = false;   // there is nothing to do
  };

  struct Finding {
    enum class State : uint8_t { kHealthy, kStalled, kFailed };
    State state = State::kHealthy;
    Part part = Part::kEngine;       // the part at fault
    std::string reason;              // empty if healthy
    engine::TimeNs stalled_for = 0;  // since the state became kStalled
  };

  // stall_limit: a part with work whose counter has not advanced for longer than this has stalled.
  Heartbeat(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit);
  // Calls Stop.
  ~Heartbeat() override;
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void OnModelAdded(const ModelLease& model) override;
  void OnModelRemoved(const std::string& name) override;

  // Watches another part. read: called at each look, one call at a time; must not block.
  void Watch(const std::string& name, Part part, std::function<Pulse()> read);
  // Once this returns, the part's `read` is not called any more. No-op for an unknown name.
  void Forget(const std::string& name);

  // Looks five times a second until Stop.
  void Start();
  void Stop();
  // One look, as the thread takes it.
  void Look();

  // What the last look found: a failed device before a stalled part.
  Finding finding() const;
  std::string sick_reason() const { return finding().reason; }

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
