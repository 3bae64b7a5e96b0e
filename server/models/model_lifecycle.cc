// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_lifecycle.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "engine/base/thread_name.h"
#include "server/models/golden_check.h"
#include "server/models/loader.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kDrainPollPeriod = absl::Milliseconds(50);

absl::Status Stopped() {
  return absl::UnavailableError("the server is stopping");
}

// What a caller hears of a load that failed: the code says whether more memory would help.
absl::Status LoadFailed(const absl::Status& why) {
  if (absl::IsCancelled(why)) return Stopped();
  const bool memory = absl::IsResourceExhausted(why);
  return absl::Status(memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition,
                      why.message());
}

}  // namespace

ModelLifecycle::ModelLifecycle(ModelRepository* repository, Devices* devices, LifecycleHooks hooks,
                               std::string text_worker, absl::Duration drain_limit)
    : repository_(repository),
      devices_(devices),
      hooks_(std::move(hooks)),
      text_worker_(std::move(text_worker)),
      drain_limit_(drain_limit) {}

ModelLifecycle::~ModelLifecycle() {
  Stop();
}

absl::Status ModelLifecycle::LoadAll(const Config& config, const std::atomic<bool>& stop) {
  {
    absl::MutexLock lock(&mutex_);
    for (const ModelSettings& settings : config.models) {
      Entry& entry = entries_[settings.name];
      entry.settings = settings;
      entry.status.name = settings.name;
      entry.status.state = ModelState::kLoading;
      entry.status.loading = true;
    }
  }
  absl::StatusOr<std::vector<PlannedModel>> plan = PlanModels(config, devices_, &start_);
  if (!plan.ok()) return plan.status();
  for (PlannedModel& planned : *plan) {
    const ModelSettings settings = planned.settings;
    auto model = BuildPlanned(std::move(planned), stop);
    if (!model.ok()) return model.status();
    if (absl::Status status = repository_->Add(*std::move(model)); !status.ok()) return status;
    if (absl::Status status = hooks_.on_served(settings); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[settings.name];
    entry.served_values = settings.values;
    entry.status.state = ModelState::kReady;
    entry.status.loading = false;
    entry.status.loads = 1;
  }
  return absl::OkStatus();
}

void ModelLifecycle::Start() {
  thread_ = std::thread([this] {
    engine::NameThread("model-loader");
    Run();
  });
}

void ModelLifecycle::Stop() {
  stop_ = true;
  std::deque<Call> left;
  {
    absl::MutexLock lock(&mutex_);
    accepts_ = false;
    left.swap(calls_);
  }
  for (const Call& call : left) {
    if (call.done) call.done(Stopped());
  }
  if (thread_.joinable()) thread_.join();
}

void ModelLifecycle::Follow(const std::vector<ModelSettings>& models) {
  absl::MutexLock lock(&mutex_);
  if (!accepts_) return;
  std::erase_if(entries_, [this](const auto& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Entry& entry = row.second;
    return !entry.configured && !entry.status.loading && !InMemory(row.first);
  });
  for (auto& [name, entry] : entries_) {
    const auto same_name = [&name = name](const ModelSettings& settings) { return settings.name == name; };
    entry.configured = std::any_of(models.begin(), models.end(), same_name);
    if (!entry.configured) EnqueueForConfig(Action::kDrop, name);
  }
  for (const ModelSettings& settings : models) {
    Entry& entry = entries_[settings.name];
    entry.settings = settings;
    entry.status.name = settings.name;
    EnqueueForConfig(Action::kLoad, settings.name);
  }
}

void ModelLifecycle::EnqueueForConfig(Action action, const std::string& model) {
  const auto same = [&](const Call& call) { return call.action == action && call.model == model && !call.done; };
  if (std::none_of(calls_.begin(), calls_.end(), same)) calls_.push_back({action, model, nullptr});
}

void ModelLifecycle::Load(const std::string& model, Done done) {
  Enqueue(Action::kLoad, model, std::move(done));
}

void ModelLifecycle::Reload(const std::string& model, Done done) {
  Enqueue(Action::kReload, model, std::move(done));
}

void ModelLifecycle::Unload(const std::string& model, Done done) {
  Enqueue(Action::kUnload, model, std::move(done));
}

void ModelLifecycle::Enqueue(Action action, const std::string& model, Done done) {
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (!accepts_) {
      refusal = Stopped();
    } else if (found == entries_.end() || !found->second.configured) {
      refusal = absl::NotFoundError("no such model");
    } else if (calls_.size() >= kMaxQueuedCalls) {
      refusal =
          absl::AbortedError(absl::StrCat(calls_.size(), " calls wait for the loader; limit is ", kMaxQueuedCalls));
    } else {
      calls_.push_back({action, model, std::move(done)});
      return;
    }
  }
  done(refusal);
}

void ModelLifecycle::Run() {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calls_.empty() || !accepts_; };
  for (;;) {
    Call call;
    {
      absl::MutexLock lock(&mutex_);
      mutex_.Await(absl::Condition(&has_work));
      if (!accepts_) return;
      call = std::move(calls_.front());
      calls_.pop_front();
    }
    const absl::Status status = Carry(call);
    if (call.done) call.done(status);
  }
}

absl::Status ModelLifecycle::Carry(const Call& call) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(call.model);
    const bool configured = found != entries_.end() && found->second.configured;
    if (call.action == Action::kDrop ? configured : !configured) return absl::NotFoundError("no such model");
  }
  switch (call.action) {
    case Action::kLoad:
    case Action::kReload:
      return Load(call.model, call.action == Action::kReload);
    case Action::kUnload:
    case Action::kDrop:
      Unload(call.model);
      break;
  }
  return absl::OkStatus();
}

absl::Status ModelLifecycle::Load(const std::string& model, bool again) {
  const bool served = repository_->Lease(model) != nullptr;
  ModelSettings settings;
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[model];
    if (served && !again && entry.served_values == entry.settings.values) return absl::OkStatus();
    settings = entry.settings;
    entry.status.loading = true;
    if (!served) entry.status.state = ModelState::kLoading;
  }
  spdlog::info("model \"{}\": loading{}", model, served ? " a new version" : "");
  absl::StatusOr<std::unique_ptr<ServedModel>> built = Build(settings);
  const absl::Status outcome = built.status();
  if (outcome.ok()) {
    repository_->Replace(*std::move(built));
    const absl::Status status = hooks_.on_served(settings);
    if (!status.ok()) spdlog::error("model \"{}\": {}", model, std::string(status.message()));
    spdlog::info("model \"{}\": {}", model, served ? "the new version is served; the earlier one drains" : "is served");
  } else {
    if (!served) hooks_.on_failed(model);
    spdlog::error("model \"{}\": load failed{}: {}", model, served ? ", the earlier version is served" : "",
                  std::string(outcome.message()));
  }
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[model];
  entry.status.loading = false;
  if (outcome.ok()) {
    entry.served_values = settings.values;
    entry.status.state = ModelState::kReady;
    entry.status.failure.clear();
    ++entry.status.loads;
    return absl::OkStatus();
  }
  if (!served) entry.status.state = ModelState::kFailed;
  entry.status.failure = std::string(outcome.message());
  ++entry.status.load_failures;
  return LoadFailed(outcome);
}

void ModelLifecycle::Unload(const std::string& model) {
  if (repository_->Remove(model)) spdlog::info("model \"{}\": takes no further requests", model);
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[model];
  entry.status.state = ModelState::kUnloaded;
  entry.status.failure.clear();
  if (!entry.configured && !InMemory(model)) entries_.erase(model);
}

absl::StatusOr<std::unique_ptr<ServedModel>> ModelLifecycle::Build(const ModelSettings& settings) {
  try {
    absl::StatusOr<PlannedModel> planned = Plan(settings);
    if (!planned.ok()) return planned.status();
    return BuildPlanned(*std::move(planned), stop_);
  } catch (const std::exception& problem) {  // no memory, no thread
    return absl::InternalError(problem.what());
  }
}

absl::StatusOr<PlannedModel> ModelLifecycle::Plan(const ModelSettings& settings) {
  size_t kv_bytes = 0;
  if (const ModelLease served = repository_->Lease(settings.name); served != nullptr && served->memory->kv_auto) {
    kv_bytes = static_cast<size_t>(served->memory->pages) * served->memory->page_bytes;
  }
  const absl::Time deadline = absl::Now() + drain_limit_;
  for (;;) {
    repository_->FreeUnleased();
    const std::vector<ModelMemory> residents = Residents();
    absl::StatusOr<PlannedModel> planned = PlanAddedModel(start_, settings, devices_, residents, kv_bytes);
    const bool drains = residents.size() > repository_->List().size();
    if (!absl::IsResourceExhausted(planned.status()) || !drains || absl::Now() > deadline || stop_) return planned;
    absl::SleepFor(kDrainPollPeriod);
  }
}

absl::StatusOr<std::unique_ptr<ServedModel>> ModelLifecycle::BuildPlanned(PlannedModel planned,
                                                                          const std::atomic<bool>& stop) {
  planned.settings.text_worker = text_worker_;
  const std::string& name = planned.settings.name;
  auto model = LoadModel(planned.settings, planned.device, hooks_.on_loading(name), stop);
  if (!model.ok()) return model;
  if (const absl::Status golden = CheckGolden(planned.settings.golden, **model, stop); !golden.ok()) {
    return absl::Status(golden.code(), absl::StrCat("model \"", name, "\": ", golden.message()));
  }
  (*model)->memory = std::make_shared<const ModelMemory>(std::move(planned.memory));
  absl::MutexLock lock(&mutex_);
  residents_.emplace_back((*model)->memory);
  return model;
}

std::vector<ModelMemory> ModelLifecycle::Residents() {
  std::vector<ModelMemory> residents;
  absl::MutexLock lock(&mutex_);
  std::erase_if(residents_, [](const auto& resident) { return resident.expired(); });
  for (const auto& resident : residents_) {
    if (const auto memory = resident.lock()) residents.push_back(*memory);
  }
  return residents;
}

bool ModelLifecycle::InMemory(const std::string& model) const {
  return std::any_of(residents_.begin(), residents_.end(), [&model](const auto& resident) {
    const std::shared_ptr<const ModelMemory> memory = resident.lock();
    return memory != nullptr && memory->name == model;
  });
}

ModelStatus ModelLifecycle::StatusOf(const Entry& entry) const {
  ModelStatus status = entry.status;
  if (status.state == ModelState::kUnloaded && InMemory(status.name)) status.state = ModelState::kUnloading;
  return status;
}

std::vector<ModelStatus> ModelLifecycle::List() const {
  absl::MutexLock lock(&mutex_);
  std::vector<ModelStatus> list;
  for (const auto& [name, entry] : entries_) {
    if (entry.configured || InMemory(name)) list.push_back(StatusOf(entry));
  }
  return list;
}

std::optional<ModelStatus> ModelLifecycle::Find(std::string_view model) const {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end() || !(found->second.configured || InMemory(found->first))) return std::nullopt;
  return StatusOf(found->second);
}

}  // namespace dunlin::server
