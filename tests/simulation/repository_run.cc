// SPDX-License-Identifier: Apache-2.0
// The level "repository" of the simulation: ModelLifecycle and ModelRepository in virtual time, over a machine that
// loads numbers. The loader's thread is this one: whenever it plans, loads, waits or has changed the repository,
// everything else acts, so that a seed is one run.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/simulation/fake_loading.h"
#include "tests/simulation/levels.h"
#include "tests/simulation/repository_check.h"
#include "tests/simulation/repository_world.h"

namespace dunlin::simulation {
namespace {

using server::ModelLease;
using server::ModelLifecycle;
using server::ModelSettings;
using EventKind = RepositoryEvent::Kind;
using RequestState = ModelRequest::State;

constexpr int kMaxTurns = 3000;  // of the loader; a run takes some hundreds
constexpr absl::Duration kDrainLimit = absl::Seconds(2);
constexpr absl::Duration kQuiet = absl::Seconds(20);  // more than any model's idle time, at the end

class RepositoryRun : public server::RepositoryListener {
 public:
  RepositoryRun(uint64_t seed, const RunOptions& options, SimulationStats* stats)
      : dice_(seed ^ 0x5E9'05E7'0571ull),
        workload_(MakeRepositoryWorkload(&dice_, options.left_out)),
        loading_(&dice_, workload_.limit, [this] { Act(); }),
        lifecycle_(&repository_, &loading_, Hooks(), kDrainLimit),
        trace_(options.trace),
        stats_(stats) {
    for (const ModelSettings& settings : workload_.models) {
      models_[settings.name].settings = settings;
    }
    repository_.Subscribe(this);
  }
  ~RepositoryRun() override {
    acts_ = false;
    for (ModelRequest& request : requests_) Release(&request);
    lifecycle_.Stop();
    repository_.Unsubscribe(this);
  }

  std::string Run() {
    server::Config config;
    config.models = workload_.models;
    const std::atomic<bool> stop{false};
    if (const absl::Status status = lifecycle_.LoadAll(config, stop); !status.ok()) Fail("start: " + status.ToString());
    acts_ = true;
    loading_.may_throw = true;
    absl::Time quiet_since = loading_.Now();
    for (int turn = 0; problem_.empty(); ++turn) {
      if (turn == kMaxTurns) Fail("no end: a livelock");
      loading_.ForgetPlan();
      const bool runs = lifecycle_.RunNext(false);
      loading_.Sleep(runs && dice_.OneIn(2) ? kRepositoryTick : 5 * kRepositoryTick);
      if (next_ < workload_.events.size() || num_open() > 0) quiet_since = loading_.Now();
      if (loading_.Now() > quiet_since + kQuiet) break;
    }
    CheckOver();
    return problem_;
  }

  void OnModelAdded(const ModelLease&) override { Act(); }  // it cannot be leased yet: Serve tells
  void OnModelReplaced(const ModelLease& model) override {
    Count(Event::kModelSwaps);
    models_[model->name].served = VersionOf(*model)->path;
    Act();
  }
  void OnModelRemoved(const std::string& name) override {
    if (!acts_) return;
    Note(name + " is removed");
    Expect(CheckRemoval(name, view_));
    if (models_[name].configured && models_[name].pending_unloads == 0) Count(Event::kModelUnusedUnloads);
    models_[name].served.clear();
    Act();
  }

 private:
  server::LifecycleHooks Hooks() {
    return {[](const std::string&) { return nullptr; }, [](const std::string&) {},
            [this](const ModelSettings& settings) {
              Serve(settings.name);
              return absl::OkStatus();
            }};
  }

  void Fail(const std::string& what) {
    if (problem_.empty()) problem_ = absl::StrCat(what, " at time ", Ticks());
  }
  int64_t Ticks() const { return (loading_.Now() - absl::UnixEpoch()) / kRepositoryTick; }
  void Count(Event event) { ++(*stats_)[event]; }
  void Note(const std::string& what) {
    if (trace_ != nullptr) trace_->push_back(absl::StrCat(Ticks(), ": ", what));
  }

  // The repository has the version that was loaded.
  void Serve(const std::string& name) {
    KnownModel& known = models_[name];
    if (known.held) Fail("a model is served that a call has unloaded");
    const ModelLease lease = repository_.Lease(name);
    if (lease == nullptr) return Fail("a model that was loaded is not served");
    known.served = VersionOf(*lease)->path;
    known.used = loading_.Now();
    known.expired = false;
    ++known.num_loads;
    Count(Event::kModelLoads);
    Note("serves " + known.served);
  }
  void Expect(const std::string& problem) {
    if (!problem.empty()) Fail(problem);
  }

  // What the rest of the world does at this moment.
  void Act() {
    if (!acts_) return;
    acts_ = false;  // not again within
    for (; next_ < workload_.events.size() && workload_.events[next_].at <= loading_.Now(); ++next_) {
      Happen(workload_.events[next_]);
    }
    lifecycle_.EndLateWaits(loading_.Now());
    for (ModelRequest& request : requests_) {
      if (dice_.OneIn(2)) GoOn(&request);
    }
    if (dice_.OneIn(4)) repository_.FreeUnleased();  // as the main thread does
    Expect(loading_.problem());
    Expect(CheckNow(view_));
    acts_ = true;
  }

  void Happen(const RepositoryEvent& event) {
    KnownModel& model = models_[event.model];
    Note(absl::StrCat("event ", event.index, ", kind ", static_cast<int>(event.kind), ", model ", event.model));
    switch (event.kind) {
      case EventKind::kRequest:
        return Begin(event);
      case EventKind::kLoad:
      case EventKind::kReload:
      case EventKind::kUnload:
        return Call(event);
      case EventKind::kEndIdleTime:
        if (lifecycle_.EndIdleTime(event.model)) model.expired = true;
        return;
      case EventKind::kNewVersion:
        model.settings = SettingsOf(model.settings, ++model.version);
        model.configured = true;
        if (dice_.OneIn(4)) loading_.broken.insert(model.settings.source.path);
        return Follow(true);
      case EventKind::kVanish:
        model.configured = false;
        model.was_dropped = true;
        return Follow(dice_.OneIn(2));
      case EventKind::kSighup:
        for (auto& [name, each] : models_) each.configured = true;
        return Follow(false);
      case EventKind::kBreak:
        loading_.broken.insert(model.settings.source.path);
        return;
      case EventKind::kMend:
        loading_.broken.erase(model.settings.source.path);
        return;
      case EventKind::kStop:
        view_.stopped = true;
        return lifecycle_.Stop();
    }
  }

  // A call or the config wants the model, whatever an earlier call has said.
  void Want(KnownModel* model) {
    model->wanted = ++order_;
    model->held = false;
  }
  void Follow(bool only_changed) {
    std::vector<ModelSettings> list;
    for (auto& [name, model] : models_) {
      Want(&model);
      if (model.configured) list.push_back(model.settings);
    }
    lifecycle_.Follow(list, only_changed);
  }

  // An administrator's call: it ends once, and what it says is so.
  void Call(const RepositoryEvent& event) {
    const auto ended = std::make_shared<int>(0);
    KnownModel& model = models_[event.model];
    ++num_calls_;
    if (event.kind == EventKind::kUnload) ++model.pending_unloads;
    if (event.kind != EventKind::kUnload) Want(&model);
    const auto done = [this, &event, &model, ended, order = ++order_,
                       loads = model.num_loads](const absl::Status& status) {
      if (++*ended > 1) Fail("a call ends twice");
      --num_calls_;
      if (event.kind == EventKind::kReload && status.ok() && model.num_loads == loads)
        Fail("a reload has read nothing");
      OnCallDone(event, status);
      if (event.kind == EventKind::kUnload && status.ok()) model.held = order > model.wanted;
    };
    if (event.kind == EventKind::kLoad) return lifecycle_.Load(event.model, done);
    if (event.kind == EventKind::kReload) return lifecycle_.Reload(event.model, done);
    lifecycle_.Unload(event.model, done);
  }
  void OnCallDone(const RepositoryEvent& event, const absl::Status& status) {
    Note(absl::StrCat("the call of event ", event.index, " ends: ", status.ToString()));
    KnownModel& model = models_[event.model];
    if (event.kind == EventKind::kUnload) {
      --model.pending_unloads;
      if (status.ok()) model.unloaded = loading_.Now();
    }
    if (!status.ok()) Count(Event::kModelCallsRefused);
    Expect(CheckCall(event, status, view_));
  }

  void Begin(const RepositoryEvent& event) {
    ModelRequest& request = requests_.emplace_back();
    request.event = &event;
    request.began = loading_.Now();
    const auto done = [this, &request](const absl::Status& status) {
      ++request.num_outcomes;
      request.outcome = status;
      Note(absl::StrCat("the wait of event ", request.event->index, " ends: ", status.ToString()));
      if (request.num_outcomes > 1) Fail("a wait ends twice");
      if (request.state == RequestState::kWaits && status.ok()) request.state = RequestState::kReady;
    };
    const absl::StatusOr<ModelLifecycle::Use> use = lifecycle_.BeginUse(event.model, event.deadline, done);
    if (!use.ok()) {
      Expect(CheckRefusal(request, use.status(), view_));
      request.state = RequestState::kOver;
      return;
    }
    if (!use->ready) Count(Event::kModelWaits);
    request.use = use->id;
    if (!use->ready) return;
    request.state = RequestState::kReady;
    models_[event.model].expired = false;
  }

  // What the request's own thread does.
  void GoOn(ModelRequest* request) {
    if (request->state == RequestState::kOver) return;
    if (request->event->leaves <= loading_.Now()) return Release(request);
    if (request->state == RequestState::kWaits && request->num_outcomes > 0) {
      Expect(CheckRefusal(*request, request->outcome, view_));
      return Release(request);
    }
    if (request->state == RequestState::kReady) return Lease(request);
    if (request->state == RequestState::kHolds && request->ends <= loading_.Now()) Release(request);
  }
  void Lease(ModelRequest* request) {
    const std::string& name = request->event->model;
    request->lease = repository_.Lease(name);
    if (request->lease == nullptr) {
      if (!models_[name].served.empty()) Fail("a served model is not found");
      return Release(request);
    }
    ++VersionOf(*request->lease)->num_leases;
    Count(Event::kModelRequests);
    request->state = RequestState::kHolds;
    request->ends = loading_.Now() + request->event->holds;
  }
  void Release(ModelRequest* request) {
    if (request->state == RequestState::kOver) return;
    if (request->uses()) models_[request->event->model].used = loading_.Now();
    if (request->lease != nullptr) --VersionOf(*request->lease)->num_leases;
    request->lease = nullptr;
    request->state = RequestState::kOver;
    if (request->use != 0) lifecycle_.EndUse(request->event->model, request->use);
  }
  int64_t num_open() const {
    return std::count_if(requests_.begin(), requests_.end(),
                         [](const ModelRequest& request) { return request.state != RequestState::kOver; });
  }

  void CheckOver() {
    if (!problem_.empty()) return;
    if (!view_.stopped && num_calls_ > 0) Fail("a call never ends");
    repository_.FreeUnleased();
    Expect(CheckEnd(view_));
    Expect(loading_.problem());
    for (const auto& [name, faults] : loading_.num_faults) (*stats_)[Event::kModelFaults] += faults;
    Count(Event::kRuns);
  }

  Dice dice_;
  RepositoryWorkload workload_;
  FakeLoading loading_;
  server::ModelRepository repository_;
  ModelLifecycle lifecycle_;
  std::vector<std::string>* trace_;
  SimulationStats* stats_;
  KnownModels models_;
  std::deque<ModelRequest> requests_;
  RepositoryView view_{&models_, &requests_, &lifecycle_, &repository_, &loading_};
  size_t next_ = 0;     // of workload_.events
  uint64_t order_ = 0;  // of calls
  int num_calls_ = 0;   // of administrators that have not ended
  bool acts_ = false;   // the rest of the world does something when it is let
  std::string problem_;
};

}  // namespace

std::string RunRepository(uint64_t seed, const RunOptions& options, SimulationStats* stats) {
  spdlog::set_level(spdlog::level::off);  // a line a load
  return RepositoryRun(seed, options, stats).Run();
}

}  // namespace dunlin::simulation
