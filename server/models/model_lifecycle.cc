// SPDX-License-Identifier: Apache-2.0
#include "server/models/model_lifecycle.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/thread_name.h"

namespace dunlin::server {
namespace {

absl::Status Stopped() {
  return absl::UnavailableError("the server is stopping");
}

}  // namespace

ModelLifecycle::ModelLifecycle(ModelRepository* repository, ModelLoading* loading, LifecycleHooks hooks,
                               absl::Duration drain_limit)
    : repository_(repository), loading_(loading), hooks_(std::move(hooks)), drain_limit_(drain_limit) {}

ModelLifecycle::~ModelLifecycle() {
  Stop();
}

absl::Status ModelLifecycle::LoadAll(const Config& config, const std::atomic<bool>& stop) {
  {
    absl::MutexLock lock(&mutex_);
    for (const ModelSettings& settings : config.models) {
      Configure(settings);
      if (settings.idle_unload_s > 0) continue;
      entries_[settings.name].status.state = ModelState::kLoading;
      entries_[settings.name].status.loading = true;
    }
  }
  absl::StatusOr<std::vector<PlannedModel>> plan = loading_->PlanStart(config);
  if (!plan.ok()) return plan.status();
  if (absl::Status status = CheckLaterModels(config, *plan); !status.ok()) return status;
  for (PlannedModel& planned : *plan) {
    const ModelSettings settings = planned.settings;
    auto model = BuildPlanned(std::move(planned), stop);
    if (!model.ok()) return model.status();
    if (absl::Status status = repository_->Add(*std::move(model)); !status.ok()) return status;
    if (absl::Status status = hooks_.on_served(settings); !status.ok()) return status;
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[settings.name];
    entry.served_values = settings.values;
    entry.served_adapters = settings.adapters.max_adapters;
    entry.status.state = ModelState::kReady;
    entry.status.loading = false;
    entry.status.loads = 1;
  }
  return absl::OkStatus();
}

absl::Status ModelLifecycle::CheckLaterModels(const Config& config, const std::vector<PlannedModel>& at_start) {
  std::vector<ModelMemory> residents;
  residents.reserve(at_start.size());
  for (const PlannedModel& planned : at_start) residents.push_back(planned.memory);
  for (const ModelSettings& settings : config.models) {
    if (settings.idle_unload_s == 0) continue;
    const absl::StatusOr<PlannedModel> planned = loading_->PlanAdded(settings, residents, 0);
    if (!planned.ok()) return planned.status();
    absl::MutexLock lock(&mutex_);
    NotePlan(planned->memory, &entries_[settings.name].status);
  }
  return absl::OkStatus();
}

void ModelLifecycle::Start() {
  thread_ = std::thread([this] {
    engine::NameThread("model-loader");
    while (RunNext(true)) continue;
  });
}

void ModelLifecycle::Stop() {
  stop_ = true;
  std::deque<Call> left;
  std::vector<Done> waits;
  std::vector<AdapterDone> adapter_waits;
  {
    absl::MutexLock lock(&mutex_);
    accepts_ = false;
    left.swap(calls_);
    for (auto& [name, entry] : entries_) {
      for (auto& [id, wait] : entry.waits) waits.push_back(std::move(wait.done));
      for (auto& [id, wait] : entry.adapter_waits) adapter_waits.push_back(std::move(wait.done));
      entry.waits.clear();
      entry.adapter_waits.clear();
    }
  }
  for (const Done& done : waits) done(Stopped());
  for (const AdapterDone& done : adapter_waits) done(Stopped());
  for (const Call& call : left) {
    if (call.done) call.done(Stopped());
  }
  if (thread_.joinable()) thread_.join();
}

void ModelLifecycle::Follow(const std::vector<ModelSettings>& models, bool only_changed) {
  absl::MutexLock lock(&mutex_);
  if (!accepts_) return;
  std::erase_if(entries_, [this](const auto& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const Entry& entry = row.second;
    return !entry.configured && !entry.status.loading && entry.waits.empty() && entry.adapter_waits.empty() &&
           !InMemory(row.first);
  });
  for (auto& [name, entry] : entries_) {
    const auto same_name = [&name = name](const ModelSettings& settings) { return settings.name == name; };
    entry.configured = std::any_of(models.begin(), models.end(), same_name);
    if (entry.configured) continue;
    entry.settings.values.clear();  // it has changed if it comes back
    EnqueueForConfig(Action::kDrop, name);
  }
  for (const ModelSettings& settings : models) {
    const Entry& entry = entries_[settings.name];
    const bool same =
        entry.settings.values == settings.values && entry.settings.adapters.list == settings.adapters.list;
    if (only_changed && same && entry.status.failure.empty()) continue;
    Configure(settings);
    // A model that requests load is replaced if it is served, else it is left to them.
    if (settings.idle_unload_s == 0 || repository_->Lease(settings.name) != nullptr) {
      EnqueueForConfig(Action::kLoad, settings.name);
    }
  }
  DropShadowedAdapters();
}

void ModelLifecycle::Configure(const ModelSettings& settings) {
  Entry& entry = entries_[settings.name];
  entry.settings = settings;
  std::erase_if(entry.adapters, [](const auto& row) { return row.second.configured; });
  for (const AdapterSource& adapter : settings.adapters.list) entry.adapters[adapter.name] = {adapter.path, true, ""};
  entry.held = false;
  entry.configured = true;
  entry.status.name = settings.name;
  const bool evicts = settings.adapters.max_registered > settings.adapters.max_adapters;
  if (settings.idle_unload_s > 0 || evicts) loads_for_requests_ = true;
}

absl::StatusOr<ModelLifecycle::Use> ModelLifecycle::BeginUse(std::string_view model, absl::Time deadline, Done done) {
  const absl::Time now = loading_->Now();
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end() || !accepts_) return Use{};
  Entry& entry = found->second;
  const ModelSettings& settings = entry.settings;
  if (!entry.configured || entry.held || settings.idle_unload_s == 0) return Use{};
  if (entry.status.state == ModelState::kReady) {
    entry.expired = false;
    entry.uses.insert(++last_use_);
    return Use{last_use_, true};
  }
  if (entry.status.state == ModelState::kFailed && now < entry.failed + kRetryAfter) {
    return absl::FailedPreconditionError("the last load failed");
  }
  const auto limit = static_cast<size_t>(settings.engine.max_queued_requests);
  if (entry.waits.size() >= limit) {
    return absl::AbortedError(absl::StrCat(entry.waits.size(), " requests wait for the model to be loaded; limit is ",
                                           limit, " (scheduler.max_queued_requests)"));
  }
  const absl::Time until = std::min(deadline, now + absl::Milliseconds(settings.load_wait_ms));
  entry.waits.emplace(++last_use_, Wait{std::move(done), until});
  EnqueueForConfig(Action::kLoadForRequests, found->first);
  return Use{last_use_, false};
}

void ModelLifecycle::EndUse(std::string_view model, uint64_t id) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end()) return;
  found->second.waits.erase(id);
  found->second.adapter_waits.erase(id);
  if (found->second.uses.erase(id) > 0) found->second.used = loading_->Now();
}

bool ModelLifecycle::EndIdleTime(std::string_view model) {
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end() || !accepts_) return false;
  Entry& entry = found->second;
  if (!entry.configured || entry.settings.idle_unload_s == 0 || entry.status.state != ModelState::kReady) return false;
  entry.expired = true;
  return true;
}

void ModelLifecycle::EndLateWaits(absl::Time now) {
  std::vector<Done> late;
  std::vector<AdapterDone> late_adapters;
  const auto take_late = [now](auto* waits, auto* dones) {
    std::erase_if(*waits, [&](auto& row) {
      if (now < row.second.until) return false;
      dones->push_back(std::move(row.second.done));
      return true;
    });
  };
  {
    absl::MutexLock lock(&mutex_);
    for (auto& [name, entry] : entries_) {
      take_late(&entry.waits, &late);
      take_late(&entry.adapter_waits, &late_adapters);
    }
  }
  for (const Done& done : late) done(absl::DeadlineExceededError("the model is still being loaded"));
  for (const AdapterDone& done : late_adapters) {
    done(absl::DeadlineExceededError("the adapter waits for memory that others use"));
  }
}

void ModelLifecycle::EndWaits(const std::string& model, const absl::Status& status) {
  std::map<uint64_t, Wait> waits;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (found == entries_.end()) return;
    waits.swap(found->second.waits);
    if (status.ok()) {
      for (const auto& [id, wait] : waits) found->second.uses.insert(id);
    }
  }
  for (const auto& [id, wait] : waits) wait.done(status);
}

void ModelLifecycle::EnqueueForConfig(Action action, const std::string& model) {
  const auto same = [&](const Call& call) { return call.action == action && call.model == model && !call.done; };
  if (std::none_of(calls_.begin(), calls_.end(), same)) calls_.push_back({action, model, nullptr});
}

void ModelLifecycle::Load(const std::string& model, Done done) {
  Enqueue({Action::kLoad, model, std::move(done)});
}

void ModelLifecycle::Reload(const std::string& model, Done done) {
  Enqueue({Action::kReload, model, std::move(done)});
}

void ModelLifecycle::Unload(const std::string& model, Done done) {
  Enqueue({Action::kUnload, model, std::move(done)});
}

void ModelLifecycle::Enqueue(Call call) {
  absl::Status refusal;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(call.model);
    if (!accepts_) {
      refusal = Stopped();
    } else if (found == entries_.end() || !found->second.configured) {
      refusal = absl::NotFoundError("no such model");
    } else if (calls_.size() >= kMaxQueuedCalls) {
      refusal =
          absl::AbortedError(absl::StrCat(calls_.size(), " calls wait for the loader; limit is ", kMaxQueuedCalls));
    } else {
      calls_.push_back(std::move(call));
      return;
    }
  }
  call.done(refusal);
}

ModelStatus ModelLifecycle::StatusOf(const Entry& entry) const {
  ModelStatus status = entry.status;
  if (status.state == ModelState::kUnloaded && InMemory(status.name)) status.state = ModelState::kUnloading;
  const bool just_failed = status.state == ModelState::kFailed && loading_->Now() < entry.failed + kRetryAfter;
  const bool comes_and_goes = entry.configured && entry.settings.idle_unload_s > 0;
  status.on_request = comes_and_goes && !entry.held && !just_failed;
  if (comes_and_goes && status.state == ModelState::kReady) status.unloads_at = UnloadTimeOf(entry);
  status.waiting = entry.waits.size() + entry.adapter_waits.size();
  status.max_adapters = entry.settings.adapters.max_adapters;
  AddAdapters(entry, &status);
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

bool ModelLifecycle::Knows(std::string_view model) const {
  absl::MutexLock lock(&mutex_);
  return entries_.contains(model);
}

}  // namespace dunlin::server
