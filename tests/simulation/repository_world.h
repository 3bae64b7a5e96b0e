// SPDX-License-Identifier: Apache-2.0
// What happens around a repository of models in a simulated run: requests that use a model for a time, calls of an
// administrator, changes of the config and of the watched folder, and files that are damaged. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "server/config/config.h"
#include "server/models/model_lifecycle.h"
#include "tests/simulation/workload.h"

namespace dunlin::simulation {

struct RepositoryEvent {
  enum class Kind : uint8_t {
    kRequest,
    kLoad,
    kReload,
    kUnload,
    kEndIdleTime,
    kNewVersion,  // in the watched folder
    kVanish,      // from the config, until a later kNewVersion or kSighup
    kSighup,      // the config is read again, with every model
    kBreak,       // the files of the model's present version are damaged
    kMend,
    kStop,
  };
  Kind kind = Kind::kRequest;
  size_t index = 0;  // in the order in which they were drawn; names it in traces
  absl::Time at;
  std::string model;
  absl::Duration holds;                          // of a request: how long it runs
  absl::Time deadline = absl::InfiniteFuture();  // the same
  absl::Time leaves = absl::InfiniteFuture();    // when its client is gone
};

// A request from its arrival to its end.
struct ModelRequest {
  enum class State : uint8_t { kWaits, kReady, kHolds, kOver };
  const RepositoryEvent* event = nullptr;
  State state = State::kWaits;
  absl::Time began;
  absl::Time ends;  // while it holds
  uint64_t use = 0;
  int num_outcomes = 0;  // of its wait
  absl::Status outcome;
  server::ModelLease lease;
  // Whether the lifecycle counts it as a user of its model.
  bool uses() const { return use != 0 && (state == State::kReady || state == State::kHolds); }
};

// What the rest of the world knows of a model.
struct KnownModel {
  server::ModelSettings settings;  // as the config has, or had it last
  int version = 1;
  bool configured = true;
  bool was_dropped = false;                    // once, so that its counters began anew
  uint64_t wanted = 0;                         // order of the last call, or change of the config, that wants it
  bool held = false;                           // a call has unloaded it, and none has wanted it since
  int pending_unloads = 0;                     // calls that have not ended
  absl::Time unloaded = absl::InfinitePast();  // when such a call ended last
  std::string served;                          // path of the version that the repository has; "" if none
  absl::Time used = absl::InfinitePast();      // when the last use ended, or it was loaded
  bool expired = false;                        // its idle time was ended by a call, and nothing has used it since
  uint64_t num_loads = 0;                      // that were served
};
using KnownModels = std::map<std::string, KnownModel>;

struct RepositoryWorkload {
  std::vector<server::ModelSettings> models;  // at the start
  std::vector<RepositoryEvent> events;        // by time
  size_t limit = 0;                           // bytes for models
};

// left_out: indexes of events that do not happen, ascending.
RepositoryWorkload MakeRepositoryWorkload(Dice* dice, const std::vector<size_t>& left_out);

// The settings of a version of a model, its path "/MODEL/VERSION".
server::ModelSettings SettingsOf(const server::ModelSettings& model, int version);

}  // namespace dunlin::simulation
