// SPDX-License-Identifier: Apache-2.0
// The loader's thread of ModelLifecycle: carries calls out, one after another, and unloads what is idle.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/models/model_lifecycle.h"

namespace dunlin::server {
namespace {

constexpr absl::Duration kDrainPollPeriod = absl::Milliseconds(50);
constexpr absl::Duration kIdlePollPeriod = absl::Milliseconds(500);
// How soon a request gets the adapter that it waits for, once another one has none left.
constexpr absl::Duration kAdapterPollPeriod = absl::Milliseconds(5);

// What a caller hears of a load that failed: the code says whether more memory would help.
absl::Status LoadFailed(const absl::Status& why) {
  if (absl::IsCancelled(why)) return absl::UnavailableError("the server is stopping");
  const bool memory = absl::IsResourceExhausted(why);
  return absl::Status(memory ? absl::StatusCode::kResourceExhausted : absl::StatusCode::kFailedPrecondition,
                      why.message());
}

}  // namespace

bool ModelLifecycle::RunNext(bool wait) {
  const auto has_work = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return !calls_.empty() || !accepts_ || adapter_wait_began_;
  };
  Call call;
  {
    absl::MutexLock lock(&mutex_);
    if (wait) {
      const absl::Duration idle = loads_for_requests_ ? kIdlePollPeriod : absl::InfiniteDuration();
      mutex_.AwaitWithTimeout(absl::Condition(&has_work), AdaptersAwaited() ? kAdapterPollPeriod : idle);
    }
    if (!accepts_) return false;
    adapter_wait_began_ = false;
    if (!calls_.empty()) {
      call = std::move(calls_.front());
      calls_.pop_front();
    }
  }
  if (!call.model.empty()) {
    const absl::Status status = Carry(call);
    if (call.done) call.done(status);
  }
  RestoreAdapters();
  UnloadIdle();
  return true;
}

absl::Status ModelLifecycle::Carry(const Call& call) {
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(call.model);
    if (found == entries_.end()) return absl::NotFoundError("no such model");  // dropped, and forgotten meanwhile
    const bool configured = found->second.configured;
    if (call.action == Action::kDrop ? configured : !configured) return absl::NotFoundError("no such model");
    if (call.action == Action::kLoadForRequests && found->second.waits.empty()) return absl::OkStatus();
  }
  absl::Status status;
  switch (call.action) {
    case Action::kLoad:
    case Action::kLoadForRequests:
    case Action::kReload:
      status = Load(call.model, call.action == Action::kReload);
      EndWaits(call.model, status);
      break;
    case Action::kUnload:
    case Action::kDrop:
      Unload(call.model);
      break;
    case Action::kLoadAdapter:
    case Action::kReloadAdapter:
    case Action::kUnloadAdapter:
      status = CarryAdapter(call);
      break;
  }
  return status;
}

absl::Status ModelLifecycle::Load(const std::string& model, bool again) {
  const bool served = repository_->Lease(model) != nullptr;
  bool unchanged = false;  // but perhaps for adapters
  ModelSettings settings;
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[model];
    if (served && !again && entry.served_values == entry.settings.values &&
        entry.settings.adapters.max_adapters <= entry.served_adapters) {
      if (entry.failed_values != entry.settings.values) entry.status.failure.clear();  // that version is not wanted now
      unchanged = true;
    }
    settings = entry.settings;
    entry.held = false;
    entry.status.loading = !unchanged;
    if (!served) entry.status.state = ModelState::kLoading;
  }
  if (unchanged) {
    FollowAdapters(model);
    return absl::OkStatus();
  }
  spdlog::info("model \"{}\": loading{} {}", model, served ? " a new version," : "", settings.source.path);
  absl::StatusOr<std::unique_ptr<ServedModel>> built = Build(settings);
  const absl::Status outcome = built.status();
  ModelStatus plan;
  if (outcome.ok()) {
    NotePlan(*(*built)->memory, &plan);
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
    entry.served_adapters = settings.adapters.max_adapters;
    entry.used = loading_->Now();
    entry.expired = false;
    entry.status.state = ModelState::kReady;
    entry.status.failure.clear();
    entry.status.encoder = plan.encoder;
    entry.status.max_context_tokens = plan.max_context_tokens;
    ++entry.status.loads;
    return absl::OkStatus();
  }
  entry.failed = loading_->Now();
  entry.failed_values = settings.values;
  if (!served) entry.status.state = ModelState::kFailed;
  entry.status.failure = std::string(outcome.message());
  ++entry.status.load_failures;
  return LoadFailed(outcome);
}

void ModelLifecycle::Unload(const std::string& model) {
  {
    absl::MutexLock lock(&mutex_);
    entries_[model].held = true;  // from here on no request waits for it
  }
  EndWaits(model, absl::UnavailableError("the model is unloaded"));
  if (repository_->Remove(model)) spdlog::info("model \"{}\": takes no further requests", model);
  EndAdapterWaits(model, "", absl::UnavailableError("the model is unloaded"));
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[model];
  entry.status.state = ModelState::kUnloaded;
  entry.status.failure.clear();
  if (!entry.configured && entry.adapter_waits.empty() && !InMemory(model)) entries_.erase(model);
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
  const absl::Time deadline = loading_->Now() + drain_limit_;
  for (;;) {
    repository_->FreeUnleased();
    const std::vector<ModelMemory> residents = Residents();
    absl::StatusOr<PlannedModel> planned = loading_->PlanAdded(settings, residents, kv_bytes);
    if (!absl::IsResourceExhausted(planned.status()) || loading_->Now() > deadline || stop_) return planned;
    const bool drains = residents.size() > repository_->List().size();
    if (!drains && !Evict(settings.name)) return planned;
    loading_->Sleep(kDrainPollPeriod);
  }
}

absl::StatusOr<std::unique_ptr<ServedModel>> ModelLifecycle::BuildPlanned(PlannedModel planned,
                                                                          const std::atomic<bool>& stop) {
  auto model = loading_->Load(planned, hooks_.on_loading(planned.settings.name), stop);
  if (!model.ok()) return model;
  const std::string& name = planned.settings.name;
  if (absl::Status adapters = LoadAdapters(planned.settings, model->get()); !adapters.ok()) {
    return absl::Status(adapters.code(), absl::StrCat("model \"", name, "\": ", adapters.message()));
  }
  if (const absl::Status golden = loading_->CheckGolden(planned.settings, **model, stop); !golden.ok()) {
    return absl::Status(golden.code(), absl::StrCat("model \"", name, "\": ", golden.message()));
  }
  (*model)->memory = std::make_shared<const ModelMemory>(std::move(planned.memory));
  absl::MutexLock lock(&mutex_);
  residents_.emplace_back((*model)->memory);
  return model;
}

std::vector<std::string> ModelLifecycle::IdleModels() const {
  std::vector<std::pair<absl::Time, std::string>> idle;
  absl::MutexLock lock(&mutex_);
  for (const auto& [name, entry] : entries_) {
    const bool may_go = entry.configured && entry.settings.idle_unload_s > 0;
    if (may_go && entry.status.state == ModelState::kReady && entry.uses.empty()) idle.emplace_back(entry.used, name);
  }
  std::sort(idle.begin(), idle.end());
  std::vector<std::string> names;
  names.reserve(idle.size());
  for (auto& [used, name] : idle) names.push_back(std::move(name));
  return names;
}

bool ModelLifecycle::UnloadUnused(const std::string& model, absl::Time since, uint64_t ModelStatus::*count) {
  {
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[model];
    if (!entry.uses.empty() || entry.used > since) return false;
    entry.status.state = ModelState::kUnloaded;  // from here on requests wait until it is loaded again
    ++(entry.status.*count);
  }
  repository_->Remove(model);
  return true;
}

void ModelLifecycle::UnloadIdle() {
  for (const std::string& name : IdleModels()) {
    absl::Duration time;
    {
      absl::MutexLock lock(&mutex_);
      const Entry& entry = entries_[name];
      if (!entry.expired) time = absl::Seconds(entry.settings.idle_unload_s);
    }
    if (!UnloadUnused(name, loading_->Now() - time, &ModelStatus::idle_unloads)) continue;
    const bool told = time == absl::ZeroDuration();
    spdlog::info("model \"{}\": {}, unloaded until its next request", name,
                 told ? "its idle time was ended by a call" : "idle for " + absl::FormatDuration(time));
  }
}

absl::Time ModelLifecycle::UnloadTimeOf(const Entry& entry) const {
  const absl::Time now = loading_->Now();
  if (entry.expired) return now;
  return (entry.uses.empty() ? entry.used : now) + absl::Seconds(entry.settings.idle_unload_s);
}

bool ModelLifecycle::Evict(const std::string& but) {
  for (const std::string& name : IdleModels()) {
    if (name == but || !UnloadUnused(name, absl::InfiniteFuture(), &ModelStatus::evictions)) continue;
    spdlog::info("model \"{}\": idle, unloaded for the memory that \"{}\" needs", name, but);
    return true;
  }
  absl::MutexLock lock(&mutex_);
  return std::any_of(entries_.begin(), entries_.end(), [&](const auto& row) {
    const Entry& entry = row.second;
    return row.first != but && entry.settings.idle_unload_s > 0 && entry.status.state == ModelState::kReady;
  });
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

void ModelLifecycle::NotePlan(const ModelMemory& memory, ModelStatus* status) {
  status->encoder = memory.encoder;
  status->max_context_tokens = memory.context_tokens;
}

bool ModelLifecycle::InMemory(const std::string& model) const {
  return std::any_of(residents_.begin(), residents_.end(), [&model](const auto& resident) {
    const std::shared_ptr<const ModelMemory> memory = resident.lock();
    return memory != nullptr && memory->name == model;
  });
}

}  // namespace dunlin::server
