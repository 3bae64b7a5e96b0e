// SPDX-License-Identifier: Apache-2.0
// The level "server" of the simulation. The loop of an engine reads its clock several times a step and before it would
// sleep: there everything else acts, on the same thread, so that a seed is one run. Where nothing is computed before
// there is mail, time goes on to whatever happens next.
#include <algorithm>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/levels.h"
#include "tests/simulation/server_check.h"
#include "tests/simulation/timeline.h"
#include "tests/simulation/trace.h"

namespace dunlin::simulation {
namespace {

using engine::FinishReason;
using engine::PauseMode;
using engine::RequestId;
using engine::StepPlan;
using engine::TimeNs;

constexpr int64_t kMaxTurnsOfWorld = 100000;  // a run takes some hundreds

class ServerRun {
 public:
  ServerRun(uint64_t seed, const RunOptions& options, SimulationStats* stats)
      : dice_(seed ^ 0x5EC0'0D1E'7E1Full),
        workload_(MakeServed(&dice_, options.left_out)),
        edge_(&dice_, workload_.num_tenants, stats),
        masks_(Masks()),
        trace_(options.trace),
        stats_(stats) {
    for (const PlannedRequest& planned : workload_.requests) {
      Call& call = calls_.emplace_back();
      call.planned = &planned;
      if (dice_.OneIn(8)) call.stop_after = static_cast<size_t>(dice_.Between(1, 6));
    }
    timeline_ = MakeTimeline(&dice_, workload_.requests);
    limits_.max_queued_requests = dice_.OneIn(2) ? dice_.Between(1, 6) : 32;
    limits_.max_queued_tokens = dice_.OneIn(2) ? dice_.Between(40, 120) : 4096;
    limits_.max_live = 2 * (limits_.max_queued_requests + workload_.scheduler.max_sequences);
    workload_.runtime.on_launch = [this](const StepPlan& plan) { OnLaunch(plan); };
    PlanDeviceError();
    PlanRanks();
    AddEngine();
  }

  std::string Run() {
    running_ = this;
    for (size_t i = 0; i < engines_.size(); ++i) {
      engine_ = engines_[i].get();
      progress_ = {};
      const absl::Status status = engine_->loop().Run();
      if (!status.ok() && !has_device_error()) Fail("the engine failed: " + status.ToString());
      if (!status.ok()) OnDeviceError(status);
    }
    // What comes after the last engine has stopped is refused.
    while (problem_.empty() && (next_ < timeline_.size() || !open_.empty())) {
      if (next_ < timeline_.size()) now_ = std::max(now_, timeline_[next_].at);
      Act();
    }
    if (problem_.empty()) CheckOver();
    running_ = nullptr;
    return problem_;
  }

 private:
  static Workload MakeServed(Dice* dice, const std::vector<size_t>& left_out) {
    Workload workload = MakeWorkload(dice, left_out);
    workload.scheduler.step_time_target *= kTick;
    for (PlannedRequest& planned : workload.requests) {
      engine::Request& request = planned.request;
      request.constraint = nullptr;  // another thread computes masks, at any time
      request.arrival *= kTick;
      if (request.deadline != engine::kNoDeadline) request.deadline *= kTick;
      if (planned.cancel_at != engine::kNoDeadline) planned.cancel_at *= kTick;
    }
    return workload;
  }
  // Idle, because nothing is constrained.
  static engine::MaskThread* Masks() {
    static auto* const masks = new engine::MaskThread(1);
    return masks;
  }
  static TimeNs ReadClock() { return running_->OnClock(); }

  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = absl::StrCat(what, " at time ", now_ / kTick);
  }
  void Expect(const std::string& problem) {
    if (!problem.empty()) Fail(problem);
  }
  void Count(Event event) { ++(*stats_)[event]; }
  void Note(const Call& call, const std::string& what) {
    if (trace_ != nullptr) trace_->push_back(Describe(now_ / kTick, call.planned->index, what));
  }
  void Note(const std::string& what) {
    if (trace_ != nullptr) trace_->push_back(absl::StrCat(now_ / kTick, ": ", what));
  }

  void AddEngine() {
    engines_.push_back(std::make_unique<FakeEngine>(workload_, limits_, masks_, &ServerRun::ReadClock));
    ++workload_.runtime.version;
  }
  FakeEngine* newest() { return engines_.back().get(); }
  // One run in four, where no other engine takes over.
  void PlanDeviceError() {
    if (Reloads(timeline_) || !dice_.OneIn(4)) return;
    (dice_.OneIn(2) ? workload_.runtime.fail_launch_at : workload_.runtime.fail_collect_at) = dice_.Between(0, 40);
  }
  // Threads, which take real time: in few runs.
  void PlanRanks() {
    if (!dice_.OneIn(12)) return;
    FakeRankOptions& ranks = workload_.runtime.ranks;
    ranks = DrawRanks(&dice_, !Reloads(timeline_) && !has_device_error());
    if (ranks.slow) Count(Event::kSlowRanks);
    ranks.on_stall = [this] { OnStalledRank(); };
  }
  // On that rank's thread, while the thread of the loop waits for it in its step.
  void OnStalledRank() {
    Count(Event::kStalledRanks);
    Note("a rank stands still");
    now_ += dice_.Between(20, 200) * kTick;
    Act();
  }
  bool has_device_error() const {
    const FakeRuntimeOptions& runtime = workload_.runtime;
    return runtime.fail_launch_at >= 0 || runtime.fail_collect_at >= 0 || runtime.ranks.fail_at >= 0;
  }
  void OnDeviceError(const absl::Status& reason) {
    const FakeRuntimeOptions& runtime = workload_.runtime;
    const Event of_step = runtime.fail_launch_at >= 0 ? Event::kLaunchFailures : Event::kCollectFailures;
    Count(runtime.ranks.fail_at >= 0 ? Event::kRankFailures : of_step);
    Expect(CheckRankReason(runtime.ranks, reason));
    Note("the device has failed");
    ends_.device_failed = true;
    edge_.CloseAdmission(server::AdmissionRefusal::kDeviceFailed);
    if (engine_->num_live() > 0) Fail("requests outlive their device");
  }

  TimeNs OnClock() {
    now_ += dice_.Between(0, 1) * kTick;
    if (dice_.OneIn(400)) {
      now_ += dice_.Between(20, 200) * kTick;
      Count(Event::kStalls);
    }
    if (engine_->pool_grows() && (engine_->awaits_pages() || dice_.OneIn(8))) engine_->GrowPool(dice_.Between(1, 3));
    if (engine_->awaits_pages()) Count(Event::kAwaitedPages);
    posted_ = false;
    Act();
    while (engine_->needs_mail() && !posted_ && problem_.empty()) GoOn();
    Expect(edge_.Check(now_));
    if (!problem_.empty()) Stop(engine_);
    return now_;
  }

  // Nothing is computed: what comes next.
  void GoOn() {
    if (engine_ != newest() && NumLeases(engine_) == 0) return Stop(engine_);
    if (next_ < timeline_.size()) {
      now_ = std::max(now_, timeline_[next_].at);
    } else if (open_.empty()) {
      return Stop(engine_);
    }
    Act();
  }

  int64_t NumLeases(const FakeEngine* fake_engine) const {
    return std::count_if(open_.begin(), open_.end(),
                         [fake_engine](const Call* call) { return call->engine == fake_engine; });
  }

  void Stop(FakeEngine* fake_engine) {
    fake_engine->mailbox().Close(engine::AcceptState::kStopped);
    posted_ = true;
  }

  void Act() {
    if (++turns_ > kMaxTurnsOfWorld) Fail("no end: calls are never over");
    for (; next_ < timeline_.size() && timeline_[next_].at <= now_; ++next_) Happen(timeline_[next_]);
    for (Call* call : open_) {
      if (dice_.OneIn(2)) GoOn(call);
    }
    std::erase_if(open_, [](const Call* call) { return call->state == Call::State::kOver; });
  }

  void Happen(const Happening& happening) {
    using Kind = Happening::Kind;
    switch (happening.kind) {
      case Kind::kArrival:
        return Open(&calls_[happening.index]);
      case Kind::kCancel:
        return Cancel(&calls_[happening.index]);
      case Kind::kPauseAbort:
        ends_.aborted = true;
        return Pause(PauseMode::kAbort, Event::kPausedAbort);
      case Kind::kPauseWait:
        return Pause(PauseMode::kWait, Event::kPausedWait);
      case Kind::kPauseKeep:
        return Pause(PauseMode::kKeep, Event::kPausedKeep);
      case Kind::kResume:
        return Resume();
      case Kind::kClearCache:
        Count(Event::kCacheCleared);
        newest()->mailbox().ClearCache();
        posted_ = posted_ || newest() == engine_;
        return;
      case Kind::kSuspend:
      case Kind::kUnsuspend:
        return edge_.Suspend(happening.kind == Kind::kSuspend);
      case Kind::kChangeQuota:
        return edge_.ChangeQuota(now_);
      case Kind::kReload:
        return Reload();
      case Kind::kDrain:
        Count(Event::kDrains);
        return edge_.CloseAdmission(server::AdmissionRefusal::kDraining);
      case Kind::kStop:
        return StopAll();
    }
  }

  void Pause(PauseMode mode, Event event) {
    Count(event);
    Note("pause");
    newest()->Pause(mode);
    posted_ = posted_ || newest() == engine_;
  }
  void Resume() {
    newest()->Pause(std::nullopt);
    posted_ = posted_ || newest() == engine_;
    Note("resume");
  }
  // Calls that lease the earlier version go on with it.
  void Reload() {
    Resume();
    Count(Event::kReloads);
    Note("reload");
    AddEngine();
  }
  void StopAll() {
    for (const auto& each : engines_) {
      if (each->num_live() > 0) Count(Event::kStopsWithLive);
      Stop(each.get());
    }
    Note("stop");
    ends_.stopped = true;
    edge_.CloseAdmission(server::AdmissionRefusal::kDraining);
  }

  void Open(Call* call) {
    const engine::Request& request = call->planned->request;
    const auto bytes = static_cast<int64_t>(20 * request.prompt.size());
    call->held = edge_.Open(request.tenant, bytes, 10 * int64_t{request.stopping.max_tokens}, now_);
    call->state = call->held.has_value() ? Call::State::kTokenised : Call::State::kOver;
    if (!call->held.has_value()) return Note(*call, "is refused");
    Note(*call, Describe(request));
    call->engine = newest();
    open_.push_back(call);
  }

  // What the text pool does of a call.
  void GoOn(Call* call) {
    if (call->state == Call::State::kTokenised) return Submit(call);
    if (call->state != Call::State::kSubmitted) return;
    if (call->sink->num_finishes() > 0) return Close(call);
    if (call->sink->num_tokens() < call->stop_after) return;
    Count(Event::kStopStrings);
    call->stop_after = 64;
    call->stopped = true;
    End(call, FinishReason::kStop);
  }

  void Submit(Call* call) {
    const engine::Request& request = call->planned->request;
    const auto prompt_tokens = static_cast<int64_t>(request.prompt.size());
    Held* held = &*call->held;
    edge_.Tokenise(held);
    if (!edge_.Reserve(prompt_tokens, now_, held) ||
        !edge_.Reserve(prompt_tokens + request.stopping.max_tokens, now_, held)) {
      return Close(call);
    }
    const engine::DeadlineDemand demand = {.tenant = request.tenant,
                                           .priority = request.priority,
                                           .stopping = request.stopping,
                                           .deadline = request.deadline};
    if (call->engine->deadlines().Check(demand, now_).has_value()) {
      Count(Event::kRefusedDeadline);
      return Close(call);
    }
    auto sink = std::make_shared<EdgeSink>(call->planned->sink_room, call->engine);
    const absl::StatusOr<RequestId> id = call->engine->Submit(request, sink);
    if (!id.ok()) {
      Count(absl::IsResourceExhausted(id.status()) ? Event::kQueueFull : Event::kNotAccepting);
      const bool expected = absl::IsInternal(id.status()) ? has_device_error() : ends_.stopped || !problem_.empty();
      if (!absl::IsResourceExhausted(id.status()) && !expected) {
        Fail("refused by an engine that runs: " + id.status().ToString());
      }
      if (sink->num_finishes() > 0) Fail("a refused request is ended");
      return Close(call);
    }
    call->sink = std::move(sink);
    call->id = *id;
    call->state = Call::State::kSubmitted;
    posted_ = posted_ || call->engine == engine_;
  }

  void Cancel(Call* call) {
    if (call->state == Call::State::kTokenised) {
      Count(Event::kCancelledBeforeSubmit);
      return Close(call);
    }
    if (call->state != Call::State::kSubmitted || call->sink->num_finishes() > 0) return;
    Note(*call, "is cancelled");
    call->cancelled = true;
    End(call, FinishReason::kCancelled);
  }
  void End(Call* call, FinishReason reason) {
    if (call->launches == 0) {  // later ones change nothing
      call->launches = std::max<int64_t>(1, call->engine->runtime().num_launched());
      posted_ = posted_ || call->engine == engine_;
    }
    call->engine->mailbox().Cancel(call->id, reason);
  }

  void Close(Call* call) {
    int64_t used = 0;
    if (call->state == Call::State::kSubmitted) {
      used = call->sink->info.prompt_tokens + call->sink->info.completion_tokens;
    }
    edge_.Close(used, now_, *std::move(call->held));
    call->held.reset();
    call->state = Call::State::kOver;
  }

  void OnLaunch(const StepPlan& plan) {
    Count(Event::kSteps);
    if (plan.sub_batches.size() > 1) Count(Event::kMixedSteps);
    for (const engine::SequenceStep& step : plan.sequences) {
      if (trace_ != nullptr) Note(absl::StrCat("id ", step.request_id, " ", Describe(step)));
    }
    Expect(CheckLaunch(*engine_, workload_, plan, open_, &progress_));
  }

  void CheckOver() {
    for (const auto& each : engines_) {
      Expect(CheckStopped(*each, calls_, ends_.device_failed));
      (*stats_)[Event::kPreemptions] += static_cast<int64_t>(each->scheduler().counters().preemptions);
      (*stats_)[Event::kPrefixHits] += static_cast<int64_t>(each->scheduler().counters().prefix_hits);
    }
    Expect(edge_.Check(now_));
    Count(Event::kRuns);
    (*stats_)[Event::kRequests] += static_cast<int64_t>(calls_.size());
    for (const Call& call : calls_) {
      if (call.id == 0) continue;
      const engine::Request& request = call.planned->request;
      ++stats_->ended_by[static_cast<size_t>(call.sink->info.reason)];
      ++stats_->of_profile[engine::ProfileIndex(request.profile)];
      const std::string problem = CheckEnd(call, ends_, workload_);
      if (!problem.empty()) Fail(absl::StrCat("request ", call.planned->index, ": ", problem));
    }
  }

  static thread_local ServerRun* running_;

  Dice dice_;
  Workload workload_;
  FakeEdge edge_;
  engine::MaskThread* masks_;
  std::vector<std::string>* trace_;
  SimulationStats* stats_;
  engine::MailboxLimits limits_;
  std::deque<Call> calls_;  // by index of the workload's requests
  std::vector<Happening> timeline_;
  size_t next_ = 0;          // of timeline_
  std::vector<Call*> open_;  // admitted and not over
  std::vector<std::unique_ptr<FakeEngine>> engines_;
  FakeEngine* engine_ = nullptr;  // whose loop runs
  ProgressCheck progress_;
  TimeNs now_ = kTick;
  int64_t turns_ = 0;    // of Act
  bool posted_ = false;  // there is mail for engine_
  OutsideEnds ends_;
  std::string problem_;
};

thread_local ServerRun* ServerRun::running_ = nullptr;

}  // namespace

std::string RunServer(uint64_t seed, const RunOptions& options, SimulationStats* stats) {
  return ServerRun(seed, options, stats).Run();
}

}  // namespace dunlin::simulation
