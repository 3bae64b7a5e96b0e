// SPDX-License-Identifier: Apache-2.0
#include "server/models/heartbeat.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);
constexpr engine::TimeNs kSecond = 1'000'000'000;
constexpr engine::TimeNs kLongStep = kSecond;  // shorter ones are not logged

// How long a counter has stood still while there was work.
struct Stillness {
  uint64_t count = 0;
  engine::TimeNs moved = 0;  // when it last advanced or there was nothing to do

  engine::TimeNs For(const Heartbeat::Pulse& pulse, engine::TimeNs now) {
    if (pulse.idle || pulse.count != count) moved = now;
    count = pulse.count;
    return now - moved;
  }
};

struct WatchedModel {
  ModelLease model;
  Stillness stillness;
  engine::TimeNs logged_step = kLongStep / 2;  // the longest step that was logged
};

struct WatchedPart {
  std::string name;
  Heartbeat::Part part;
  std::function<Heartbeat::Pulse()> read;
  Stillness stillness;
};

// Steps grow with the load; one line for each doubling is enough to choose health.stall_ms by.
void LogLongStep(const engine::EngineStats& stats, WatchedModel* watched) {
  if (stats.longest_step_ns < 2 * watched->logged_step) return;
  watched->logged_step = stats.longest_step_ns;
  spdlog::info("model \"{}\": longest step so far {:.3f} s", watched->model->name,
               static_cast<double>(stats.longest_step_ns) * 1e-9);
}

}  // namespace

struct Heartbeat::State {
  State(engine::ModelEngine::Clock time, engine::TimeNs limit)
      : clock(time), stall_limit(limit), max_stride(std::min(kSecond, limit / 4)) {}

  void Look() ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex) {
    const engine::TimeNs time = clock();
    if (last_look.has_value()) watched_time += std::min(time - *last_look, max_stride);
    last_look = time;
    Finding found;
    for (WatchedModel& watched : models) LookAt(&watched, &found);
    for (WatchedPart& watched : parts) {
      Note(watched.part, watched.name, watched.stillness.For(watched.read(), watched_time), &found);
    }
    Publish(std::move(found));
  }

  void LookAt(WatchedModel* watched, Finding* found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex) {
    const std::string name = absl::StrCat("model ", watched->model->name);
    const engine::EngineStats stats = watched->model->any_engine()->stats();
    LogLongStep(stats, watched);
    const engine::TimeNs still = watched->stillness.For({stats.progress, stats.idle || stats.paused}, watched_time);
    if (!stats.failed) return Note(Part::kEngine, name, still, found);
    if (found->state == Finding::State::kFailed) return;
    *found = {Finding::State::kFailed, Part::kEngine, absl::StrCat(name, ": the device failed"), 0};
  }

  void Note(Part part, const std::string& name, engine::TimeNs still, Finding* found) const {
    if (still <= stall_limit || found->state != Finding::State::kHealthy) return;
    *found = {Finding::State::kStalled, part,
              absl::StrFormat("%s: no progress for %.1f s", name, static_cast<double>(still) * 1e-9), 0};
  }

  void Publish(Finding found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(look_mutex) {
    const bool stalled = found.state == Finding::State::kStalled;
    if (stalled && !stalled_since.has_value()) {
      stalled_since = watched_time;
      spdlog::error("stalled: {}", found.reason);
    } else if (!stalled && stalled_since.has_value()) {
      stalled_since.reset();
      spdlog::info("stall is over");
    }
    if (stalled) found.stalled_for = watched_time - *stalled_since;
    absl::MutexLock lock(&finding_mutex);
    finding = std::move(found);
  }

  void Run() {
    absl::MutexLock lock(&look_mutex);
    while (!look_mutex.AwaitWithTimeout(absl::Condition(&stopping), kPeriod)) Look();
  }

  const engine::ModelEngine::Clock clock;
  const engine::TimeNs stall_limit;
  const engine::TimeNs max_stride;  // that a look adds to watched_time, however late it comes

  absl::Mutex look_mutex;  // guards what is watched; held during a look
  std::vector<WatchedModel> models ABSL_GUARDED_BY(look_mutex);
  std::vector<WatchedPart> parts ABSL_GUARDED_BY(look_mutex);
  engine::TimeNs watched_time ABSL_GUARDED_BY(look_mutex) = 0;
  std::optional<engine::TimeNs> last_look ABSL_GUARDED_BY(look_mutex);
  std::optional<engine::TimeNs> stalled_since ABSL_GUARDED_BY(look_mutex);  // watched time
  bool stopping ABSL_GUARDED_BY(look_mutex) = false;

  mutable absl::Mutex finding_mutex;  // guards finding, for the probes, which must not wait for a look
  Finding finding ABSL_GUARDED_BY(finding_mutex);
  std::thread thread;
};

Heartbeat::Heartbeat(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit)
    : state_(std::make_unique<State>(clock, stall_limit)) {}

Heartbeat::~Heartbeat() {
  Stop();
}

void Heartbeat::OnModelAdded(const ModelLease& model) {
  absl::MutexLock lock(&state_->look_mutex);
  state_->models.push_back({model, {0, state_->watched_time}});
}

void Heartbeat::OnModelRemoved(const std::string& name) {
  absl::MutexLock lock(&state_->look_mutex);
  std::erase_if(state_->models, [&name](const WatchedModel& watched) { return watched.model->name == name; });
}

void Heartbeat::Watch(const std::string& name, Part part, std::function<Pulse()> read) {
  absl::MutexLock lock(&state_->look_mutex);
  state_->parts.push_back({name, part, std::move(read), {0, state_->watched_time}});
}

void Heartbeat::Forget(const std::string& name) {
  absl::MutexLock lock(&state_->look_mutex);
  std::erase_if(state_->parts, [&name](const WatchedPart& watched) { return watched.name == name; });
}

void Heartbeat::Start() {
  state_->thread = std::thread([state = state_.get()] {
    engine::NameThread("watchdog");
    state->Run();
  });
}

void Heartbeat::Stop() {
  {
    absl::MutexLock lock(&state_->look_mutex);
    state_->stopping = true;
  }
  if (state_->thread.joinable()) state_->thread.join();
}

void Heartbeat::Look() {
  absl::MutexLock lock(&state_->look_mutex);
  state_->Look();
}

Heartbeat::Finding Heartbeat::finding() const {
  absl::MutexLock lock(&state_->finding_mutex);
  return state_->finding;
}

}  // namespace dunlin::server
