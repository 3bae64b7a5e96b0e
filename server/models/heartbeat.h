// SPDX-License-Identifier: Apache-2.0
// The watchdog: an engine is healthy while its step counter moves or it is provably idle. One thread polls the counters
// of every model in the repository, so that a probe costs nothing and cannot hang.
// Thread rule: any thread; Start once.
#pragma once

#include <memory>
#include <string>

#include "engine/model_engine.h"
#include "server/models/repository.h"

namespace dunlin::server {

class Heartbeat : public RepositoryListener {
 public:
  // stall_limit: an engine with work whose counter stands still for longer has stalled.
  Heartbeat(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit);
  ~Heartbeat() override;
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void OnModelAdded(const ModelLease& model) override;
  void OnModelRemoved(const std::string& name) override;
  void Start();

  // Empty when every engine is healthy; else what is wrong with the first that is not.
  std::string sick_reason() const;
  // Whether a device has failed: nothing can be served any more, the process should end.
  bool failed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
