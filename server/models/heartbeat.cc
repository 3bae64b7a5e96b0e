// SPDX-License-Identifier: Apache-2.0
#include "server/models/heartbeat.h"

#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);

struct Pulse {
  ModelLease model;
  uint64_t steps = 0;
  engine::TimeNs moved = 0;  // when the counter last advanced or the engine was last seen idle
};

}  // namespace

struct Heartbeat::State {
  State(engine::ModelEngine::Clock time, engine::TimeNs limit) : clock(time), stall_limit(limit) {}

  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
    const engine::TimeNs now = clock();
    std::string reason;
    for (Pulse& pulse : pulses) {
      const engine::EngineStats stats = pulse.model->any_engine()->stats();
      if (stats.idle || stats.steps != pulse.steps) pulse.moved = now;
      pulse.steps = stats.steps;
      failed = failed || stats.failed;
      if (stats.failed) {
        reason = absl::StrCat("model ", pulse.model->name, ": the device failed");
      } else if (now - pulse.moved > stall_limit && reason.empty()) {
        reason = absl::StrCat("model ", pulse.model->name, ": no step for ", (now - pulse.moved) / 1000000000, " s");
      }
    }
    sick_reason = std::move(reason);
  }

  void Run() {
    absl::MutexLock lock(&mutex);
    while (!mutex.AwaitWithTimeout(absl::Condition(&stopping), kPeriod)) Look();
  }

  const engine::ModelEngine::Clock clock;
  const engine::TimeNs stall_limit;
  mutable absl::Mutex mutex;  // guards the watchdog's findings, which the probes read
  std::vector<Pulse> pulses ABSL_GUARDED_BY(mutex);
  std::string sick_reason ABSL_GUARDED_BY(mutex);
  bool failed ABSL_GUARDED_BY(mutex) = false;
  bool stopping ABSL_GUARDED_BY(mutex) = false;
  std::thread thread;
};

Heartbeat::Heartbeat(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit)
    : state_(std::make_unique<State>(clock, stall_limit)) {}

Heartbeat::~Heartbeat() {
  {
    absl::MutexLock lock(&state_->mutex);
    state_->stopping = true;
  }
  if (state_->thread.joinable()) state_->thread.join();
}

void Heartbeat::OnModelAdded(const ModelLease& model) {
  absl::MutexLock lock(&state_->mutex);
  state_->pulses.push_back({model, 0, state_->clock()});
}

void Heartbeat::OnModelRemoved(const std::string& name) {
  absl::MutexLock lock(&state_->mutex);
  std::erase_if(state_->pulses, [&name](const Pulse& pulse) { return pulse.model->name == name; });
}

void Heartbeat::Start() {
  state_->thread = std::thread([state = state_.get()] { state->Run(); });
}

std::string Heartbeat::sick_reason() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->sick_reason;
}

bool Heartbeat::failed() const {
  absl::MutexLock lock(&state_->mutex);
  return state_->failed;
}

}  // namespace dunlin::server
