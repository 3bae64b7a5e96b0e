// SPDX-License-Identifier: Apache-2.0
#include "server/models/watchdog.h"

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
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kPeriod = absl::Milliseconds(200);
constexpr engine::TimeNs kSecond = 1'000'000'000;
constexpr engine::TimeNs kLongStep = kSecond;  // shorter ones are not logged

// How long a counter has not advanced while there was work.
struct StallTimer {
  uint64_t count = 0;
  engine::TimeNs moved = 0;  // when it last advanced or there was nothing to do

  engine::TimeNs For(const Watchdog::Progress& progress, engine::TimeNs now) {
    if (progress.idle || progress.count != count) moved = now;
    count = progress.count;
    return now - moved;
  }
};

// Time counted from tick to tick; a late tick counts as at most `max_stride`.
struct StridedClock {
  std::optional<engine::TimeNs> last;
  engine::TimeNs time = 0;

  engine::TimeNs Tick(engine::TimeNs now, engine::TimeNs max_stride) {
    if (last.has_value()) time += std::min(now - *last, max_stride);
    last = now;
    return time;
  }
};

// An engine of a model: its own, or that of its image encoder.
struct WatchedModel {
  ModelLease model;
  const engine::ModelEngine* engine = nullptr;
  StallTimer stall_timer;
  engine::TimeNs logged_step = kLongStep / 2;  // the longest step that was logged
};

struct WatchedPart {
  std::string name;
  Watchdog::Part part;
  std::function<Watchdog::Progress()> read;
  StallTimer stall_timer;
};

// What a poll reads now.
struct ReadPart {
  Watchdog::Part part = Watchdog::Part::kEngine;
  std::string name = "the watchdog";
  std::string model;  // as HealthReport::model
};

std::string NameOf(const WatchedModel& watched) {
  const bool images = watched.engine == watched.model->image_engine();
  return absl::StrCat("model ", watched.model->name, images ? ", images" : "");
}

// Steps grow with the load; one line for each doubling is enough to choose health.stall_ms by.
void LogLongStep(const engine::EngineStats& stats, WatchedModel* watched) {
  if (stats.longest_step_ns < 2 * watched->logged_step) return;
  watched->logged_step = stats.longest_step_ns;
  spdlog::info("{}: longest step so far {:.3f} s", NameOf(*watched), static_cast<double>(stats.longest_step_ns) * 1e-9);
}

}  // namespace

struct Watchdog::State {
  State(engine::ModelEngine::Clock time, engine::TimeNs limit)
      : clock(time), stall_limit(limit), max_stride(std::min(kSecond, limit / 4)) {}

  void Poll() ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex) {
    watched_time = watched_clock.Tick(clock(), max_stride);
    HealthReport found;
    for (WatchedModel& watched : models) {
      Reads(Part::kEngine, NameOf(watched), watched.model->name);
      PollModel(&watched, &found);
    }
    for (WatchedPart& watched : parts) {
      Reads(watched.part, watched.name, "");
      Note(watched.part, watched.name, watched.stall_timer.For(watched.read(), watched_time), &found);
    }
    Publish(std::move(found));
  }

  // Of the poll, what it reads next; Supervise names it.
  void Reads(Part part, std::string name, std::string model) {
    absl::MutexLock lock(&report_mutex);
    read = {part, std::move(name), std::move(model)};
  }

  void Supervise() ABSL_LOCKS_EXCLUDED(report_mutex) {
    const std::string reason = ReportHangingPoll();
    if (!reason.empty()) spdlog::error("stalled: {}", reason);
    if (after_stall != nullptr && StalledFor() > after_stall_limit) after_stall();
  }

  engine::TimeNs StalledFor() const ABSL_LOCKS_EXCLUDED(report_mutex) {
    absl::MutexLock lock(&report_mutex);
    return report.stalled_for;
  }

  // The reason, when it is found.
  std::string ReportHangingPoll() ABSL_LOCKS_EXCLUDED(report_mutex) {
    absl::MutexLock lock(&report_mutex);
    const engine::TimeNs now = supervised_clock.Tick(clock(), max_stride);
    const engine::TimeNs still = poll_timer.For({num_polls, false}, now);
    if (report.state == HealthReport::State::kFailed) return "";
    if (report.state == HealthReport::State::kStalled && !polls_stalled) {  // found by a poll before
      report.stalled_for = polled_stall + still;
      return "";
    }
    if (still <= stall_limit) return "";
    report = {HealthReport::State::kStalled, read.part,
              absl::StrFormat("%s: gives no answer for %.1f s", read.name, static_cast<double>(still) * 1e-9),
              still - stall_limit, read.model};
    return std::exchange(polls_stalled, true) ? "" : report.reason;
  }

  void PollModel(WatchedModel* watched, HealthReport* found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex) {
    const engine::EngineStats stats = watched->engine->stats();
    const int32_t rank = stats.rank_at_fault;
    const std::string name = absl::StrCat(NameOf(*watched), rank < 0 ? "" : absl::StrCat(", rank ", rank));
    LogLongStep(stats, watched);
    const engine::TimeNs still = watched->stall_timer.For({stats.progress, stats.idle || stats.paused}, watched_time);
    const HealthReport::State before = found->state;
    if (!stats.failed) {
      Note(Part::kEngine, name, still, found);
    } else if (before != HealthReport::State::kFailed) {
      *found = {HealthReport::State::kFailed, Part::kEngine, absl::StrCat(name, ": the device failed"), 0};
    }
    if (found->state == before) return;
    found->model = watched->model->name;
    found->rank = rank;
  }

  void Note(Part part, const std::string& name, engine::TimeNs still, HealthReport* found) const {
    if (still <= stall_limit || found->state != HealthReport::State::kHealthy) return;
    *found = {HealthReport::State::kStalled, part,
              absl::StrFormat("%s: no progress for %.1f s", name, static_cast<double>(still) * 1e-9), 0};
  }

  void Publish(HealthReport found) ABSL_EXCLUSIVE_LOCKS_REQUIRED(poll_mutex) {
    const bool stalled = found.state == HealthReport::State::kStalled;
    const bool stalled_before = stalled_since.has_value();
    if (stalled && !stalled_before) {
      stalled_since = watched_time;
      spdlog::error("stalled: {}", found.reason);
    }
    if (stalled) found.stalled_for = watched_time - *stalled_since;
    if (!stalled) stalled_since.reset();
    const bool polls_stalled_before = SetReport(std::move(found));
    if (!stalled && (stalled_before || polls_stalled_before)) spdlog::info("stall is over");
  }

  // Of a poll. Whether the poll had been reported as hanging.
  bool SetReport(HealthReport found) ABSL_LOCKS_EXCLUDED(report_mutex) {
    absl::MutexLock lock(&report_mutex);
    ++num_polls;
    polled_stall = found.stalled_for;
    report = std::move(found);
    return std::exchange(polls_stalled, false);
  }

  void Run() {
    absl::MutexLock lock(&poll_mutex);
    while (!stop.HasBeenNotified()) {
      Poll();
      poll_mutex.Unlock();
      stop.WaitForNotificationWithTimeout(kPeriod);
      poll_mutex.Lock();
    }
  }

  const engine::ModelEngine::Clock clock;
  const engine::TimeNs stall_limit;
  const engine::TimeNs max_stride;  // that a poll adds to watched_time, however late it comes

  absl::Mutex poll_mutex;  // guards what is watched; held during a poll
  std::vector<WatchedModel> models ABSL_GUARDED_BY(poll_mutex);
  std::vector<WatchedPart> parts ABSL_GUARDED_BY(poll_mutex);
  StridedClock watched_clock ABSL_GUARDED_BY(poll_mutex);
  engine::TimeNs watched_time ABSL_GUARDED_BY(poll_mutex) = 0;
  std::optional<engine::TimeNs> stalled_since ABSL_GUARDED_BY(poll_mutex);  // watched time

  mutable absl::Mutex report_mutex;  // for the probes, which must not wait for a poll; no other is taken with it
  HealthReport report ABSL_GUARDED_BY(report_mutex);
  ReadPart read ABSL_GUARDED_BY(report_mutex);
  engine::TimeNs polled_stall ABSL_GUARDED_BY(report_mutex) = 0;  // stalled_for of the last poll's report
  uint64_t num_polls ABSL_GUARDED_BY(report_mutex) = 0;
  StridedClock supervised_clock ABSL_GUARDED_BY(report_mutex);
  StallTimer poll_timer ABSL_GUARDED_BY(report_mutex);
  bool polls_stalled ABSL_GUARDED_BY(report_mutex) = false;

  engine::TimeNs after_stall_limit = 0;  // as after_stall: const once started
  std::function<void()> after_stall;
  absl::Notification stop;
  std::thread thread;
  std::thread supervisor;
};

Watchdog::Watchdog(engine::ModelEngine::Clock clock, engine::TimeNs stall_limit)
    : state_(std::make_unique<State>(clock, stall_limit)) {}

Watchdog::~Watchdog() {
  Stop();
}

void Watchdog::OnModelAdded(const ModelLease& model) {
  absl::MutexLock lock(&state_->poll_mutex);
  for (const engine::ModelEngine* engine : {model->any_engine(), model->image_engine()}) {
    if (engine != nullptr) state_->models.push_back({model, engine, {0, state_->watched_time}});
  }
}

void Watchdog::OnModelRemoved(const std::string& name) {
  absl::MutexLock lock(&state_->poll_mutex);
  std::erase_if(state_->models, [&name](const WatchedModel& watched) { return watched.model->name == name; });
}

void Watchdog::Watch(const std::string& name, Part part, std::function<Progress()> read) {
  absl::MutexLock lock(&state_->poll_mutex);
  state_->parts.push_back({name, part, std::move(read), {0, state_->watched_time}});
}

void Watchdog::Unwatch(const std::string& name) {
  absl::MutexLock lock(&state_->poll_mutex);
  std::erase_if(state_->parts, [&name](const WatchedPart& watched) { return watched.name == name; });
}

void Watchdog::CallAfterStall(engine::TimeNs limit, std::function<void()> call) {
  state_->after_stall_limit = limit;
  state_->after_stall = std::move(call);
}

void Watchdog::Start() {
  state_->thread = std::thread([state = state_.get()] {
    engine::NameThread("watchdog");
    state->Run();
  });
  state_->supervisor = std::thread([state = state_.get()] {
    engine::NameThread("supervisor");
    while (!state->stop.WaitForNotificationWithTimeout(kPeriod)) state->Supervise();
  });
}

void Watchdog::Stop() {
  if (!state_->stop.HasBeenNotified()) state_->stop.Notify();
  for (std::thread* thread : {&state_->thread, &state_->supervisor}) {
    if (thread->joinable()) thread->join();
  }
}

void Watchdog::Poll() {
  absl::MutexLock lock(&state_->poll_mutex);
  state_->Poll();
}

void Watchdog::Supervise() {
  state_->Supervise();
}

Watchdog::HealthReport Watchdog::report() const {
  absl::MutexLock lock(&state_->report_mutex);
  return state_->report;
}

std::vector<ModelStatus> Watchdog::WithHealth(std::vector<ModelStatus> models) const {
  const HealthReport found = report();
  for (ModelStatus& model : models) {
    if (found.model.empty() || model.name != found.model) continue;
    model.unhealthy = true;
    model.rank_at_fault = found.rank;
  }
  return models;
}

}  // namespace dunlin::server
