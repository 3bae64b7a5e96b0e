// SPDX-License-Identifier: Apache-2.0
// Detects parts of the server that stall. A part is healthy while the counter of its work advances or it is provably
// idle. One thread polls the engine of every model in the repository and every other part that Watch names, so that
// health probes cost nothing and cannot hang. A second one supervises it: a part that hangs may hold a lock that
// reading another one needs, and then the polls stop, which counts as a stall of what is being read. Time is counted
// from poll to poll, and a late poll counts as at most one second: a process that was stopped and continued, together
// with this thread, has not stalled. Thread rule: any thread; Start once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/request/model_engine.h"
#include "server/models/model_state.h"
#include "server/models/repository.h"

namespace dunlin::server {

class Watchdog : public RepositoryListener {
 public:
  enum class Part : uint8_t { kEngine, kTextPool, kTransport };

  struct Progress {
    uint64_t count = 0;  // of work that is done
    bool idle = false;   // there is no work
  };

  struct HealthReport {
    enum class State : uint8_t { kHealthy, kStalled, kFailed };
    State state = State::kHealthy;
    Part part = Part::kEngine;       // the part at fault
    std::string reason;              // empty if healthy
    engine::TimeNs stalled_for = 0;  // since the state became kStalled
    std::string model = {};          // whose engine that is; empty: another part
    int32_t rank = -1;               // of a divided model, where it is known which one it is
  };

  // stall_limit: a part with work whose counter has not advanced for longer than this has stalled.
  Watchdog(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit);
  // Calls Stop.
  ~Watchdog() override;
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;

  void OnModelAdded(const ModelLease& model) override;
  void OnModelRemoved(const std::string& name) override;

  // Watches another part. read: called at each poll, one call at a time; must not block while all parts are healthy.
  void Watch(const std::string& name, Part part, std::function<Progress()> read);
  // Once this returns, the part's `read` is not called any more; it waits for a poll that hangs. No-op for an unknown
  // name.
  void Unwatch(const std::string& name);
  // call: made by the supervisor, which holds no lock then, at each look at which a stall has lasted for longer than
  // `limit`: whoever else would look may wait for what has stalled. Before Start.
  void CallAfterStall(engine::TimeNs limit, std::function<void()> call);

  // Polls and supervises five times a second until Stop.
  void Start();
  void Stop();  // waits for a poll that hangs
  // Polls once, or looks once whether polls go on, as the threads do.
  void Poll();
  void Supervise();

  // Of the last poll. A failed device is reported before a stalled part.
  HealthReport report() const;
  std::string unhealthy_reason() const { return report().reason; }
  // `models`, of which the one at fault is marked.
  std::vector<ModelStatus> WithHealth(std::vector<ModelStatus> models) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
