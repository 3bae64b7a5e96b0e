// SPDX-License-Identifier: Apache-2.0
// The watchdog: an engine is healthy while its step counter advances or it is provably idle. One thread polls the
// counters of every model in the repository, so that health probes cost nothing and cannot hang.
// Thread rule: any thread; Start once.
#pragma once

#include <memory>
#include <string>

#include "engine/model_engine.h"
#include "server/models/repository.h"

namespace dunlin::server {

class Heartbeat : public RepositoryListener {
 public:
  // stall_limit: an engine that has work but no completed step for longer than this has stalled.
  Heartbeat(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit);
  ~Heartbeat() override;
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  void OnModelAdded(const ModelLease& model) override;
  void OnModelRemoved(const std::string& name) override;
  void Start();

  // Empty if every engine is healthy; else the problem of the first that is not.
  std::string sick_reason() const;
  // Whether a device has failed: the process can no longer serve and should exit.
  bool failed() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace dunlin::server
