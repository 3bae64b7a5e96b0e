// SPDX-License-Identifier: Apache-2.0
// The LoRA adapters of ModelLifecycle's models: which ones each should have, and the loader's calls that see to it.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/models/model_lifecycle.h"

namespace dunlin::server {
namespace {

using IfLoaded = engine::AdapterSet::IfLoaded;

absl::Status UnknownAdapter() {
  return absl::NotFoundError("no such adapter");
}

// What a caller hears of an adapter that could not be loaded.
absl::Status AdapterFailed(const absl::Status& why) {
  const bool told = absl::IsNotFound(why) || absl::IsResourceExhausted(why);
  return told ? why : absl::FailedPreconditionError(why.message());
}

}  // namespace

void ModelLifecycle::LoadAdapter(const std::string& model, const AdapterSource& adapter, bool in_place, Done done) {
  absl::StatusOr<AdapterSource> checked = CheckAdapter(model, adapter);
  if (!checked.ok()) return done(checked.status());
  Enqueue({Action::kLoadAdapter, model, std::move(done), *std::move(checked), in_place});
}

void ModelLifecycle::ReloadAdapter(const std::string& adapter, Done done) {
  const std::string model = ModelOfAdapter(adapter);
  if (model.empty()) return done(UnknownAdapter());
  Enqueue({Action::kReloadAdapter, model, std::move(done), {adapter, ""}});
}

void ModelLifecycle::UnloadAdapter(const std::string& adapter, Done done) {
  const std::string model = ModelOfAdapter(adapter);
  if (model.empty()) return done(UnknownAdapter());
  Enqueue({Action::kUnloadAdapter, model, std::move(done), {adapter, ""}});
}

absl::StatusOr<AdapterSource> ModelLifecycle::CheckAdapter(const std::string& model,
                                                           const AdapterSource& adapter) const {
  if (absl::Status named = CheckAdapterName("the adapter's name", adapter.name); !named.ok()) return named;
  AdapterSettings settings;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (found != entries_.end()) settings = found->second.settings.adapters;
  }
  absl::StatusOr<std::string> path = ResolveAdapterPath(settings, adapter.path);
  if (!path.ok()) return path.status();
  return AdapterSource{adapter.name, *std::move(path)};
}

std::string ModelLifecycle::ModelOfAdapter(std::string_view adapter) const {
  absl::MutexLock lock(&mutex_);
  return FindModelOf(adapter);
}

std::string ModelLifecycle::FindModelOf(std::string_view adapter) const {
  for (const auto& [name, entry] : entries_) {
    if (entry.configured && entry.adapters.contains(adapter)) return name;
  }
  return "";
}

void ModelLifecycle::AddAdapters(const Entry& entry, ModelStatus* status) const {
  const ModelLease served = repository_->Lease(entry.status.name);
  std::vector<AdapterStatus> loaded;
  if (served != nullptr) {
    loaded = LoadedAdapters(*served);
    status->waiting_adapters = served->adapter_uses->waiting();
    status->running_adapters = served->adapter_uses->running();
    if (served->adapters != nullptr) status->adapter_moves = served->adapters->moves();
  }
  for (const auto& [name, wanted] : entry.adapters) {
    const auto of_name = [&name = name](const AdapterStatus& adapter) { return adapter.name == name; };
    const auto found = std::find_if(loaded.begin(), loaded.end(), of_name);
    status->adapters.push_back(found == loaded.end() ? AdapterStatus{name, wanted.path} : *found);
    status->adapters.back().failure = wanted.failure;
  }
}

absl::Status ModelLifecycle::CarryAdapter(const Call& call) {
  AdapterSource adapter = call.adapter;
  {
    absl::MutexLock lock(&mutex_);
    const Entry& entry = entries_[call.model];
    const auto wanted = entry.adapters.find(adapter.name);
    const bool known = wanted != entry.adapters.end();
    if (call.action != Action::kLoadAdapter && !known) return UnknownAdapter();
    if (call.action == Action::kReloadAdapter) adapter.path = wanted->second.path;
    if (call.action == Action::kLoadAdapter) {
      const std::string model = FindModelOf(adapter.name);
      if (entries_.contains(adapter.name) || (!model.empty() && model != call.model)) {
        return absl::InvalidArgumentError("the name is that of another model, or of an adapter of one");
      }
      if (known && !call.in_place) return absl::AlreadyExistsError("an adapter of that name is loaded");
    }
  }
  if (call.action != Action::kUnloadAdapter) return LoadOneAdapter(call.model, adapter);
  UnloadOneAdapter(call.model, adapter.name);
  return absl::OkStatus();
}

absl::Status ModelLifecycle::LoadOneAdapter(const std::string& model, const AdapterSource& adapter) {
  const ModelLease served = repository_->Lease(model);
  if (served == nullptr) return absl::FailedPreconditionError("the model is not loaded");
  if (served->adapters == nullptr) {
    return absl::FailedPreconditionError("the model takes no adapters (models[].max_adapters)");
  }
  absl::Status loaded = served->adapters->Load(adapter.name, adapter.path, IfLoaded::kReplace).status();
  if (loaded.ok()) {
    spdlog::info("model \"{}\": adapter \"{}\" is served, of {}", model, adapter.name, adapter.path);
  } else {
    spdlog::error("model \"{}\": adapter \"{}\": load failed: {}", model, adapter.name, std::string(loaded.message()));
  }
  absl::MutexLock lock(&mutex_);
  Entry& entry = entries_[model];
  const auto wanted = entry.adapters.find(adapter.name);
  if (loaded.ok()) {
    ++entry.status.adapter_loads;
    const bool configured = wanted != entry.adapters.end() && wanted->second.configured;
    entry.adapters[adapter.name] = {adapter.path, configured, ""};
    return loaded;
  }
  ++entry.status.adapter_load_failures;
  if (wanted != entry.adapters.end()) wanted->second.failure = std::string(loaded.message());
  return AdapterFailed(loaded);
}

void ModelLifecycle::UnloadOneAdapter(const std::string& model, const std::string& adapter) {
  const ModelLease served = repository_->Lease(model);
  if (served != nullptr && served->adapters != nullptr && served->adapters->Unload(adapter).ok()) {
    spdlog::info("model \"{}\": adapter \"{}\" takes no further requests", model, adapter);
  }
  absl::MutexLock lock(&mutex_);
  entries_[model].adapters.erase(adapter);
}

void ModelLifecycle::FollowAdapters(const std::string& model) {
  const ModelLease served = repository_->Lease(model);
  if (served == nullptr || served->adapters == nullptr) return;
  std::map<std::string, WantedAdapter, std::less<>> wanted;
  {
    absl::MutexLock lock(&mutex_);
    wanted = entries_[model].adapters;
  }
  for (const engine::AdapterInfo& loaded : served->adapters->List()) {
    const auto found = wanted.find(loaded.name);
    if (found == wanted.end()) {
      UnloadOneAdapter(model, loaded.name);
    } else if (found->second.path == loaded.path) {
      wanted.erase(found);
    }
  }
  for (const auto& [name, adapter] : wanted) {
    LoadOneAdapter(model, {name, adapter.path}).IgnoreError();  // logged, and the adapter's status has it
  }
}

absl::Status ModelLifecycle::LoadAdapters(const ModelSettings& settings, ServedModel* served) {
  std::map<std::string, WantedAdapter, std::less<>> wanted;
  {
    absl::MutexLock lock(&mutex_);
    wanted = entries_[settings.name].adapters;
  }
  uint64_t loads = 0;
  for (const auto& [name, adapter] : wanted) {
    const absl::Status loaded = served->adapters == nullptr
                                    ? absl::FailedPreconditionError("the model takes no adapters")
                                    : served->adapters->Load(name, adapter.path).status();
    if (loaded.ok()) {
      ++loads;
      continue;
    }
    const std::string problem = absl::StrCat("adapter \"", name, "\": ", loaded.message());
    if (adapter.configured) return absl::Status(loaded.code(), problem);
    spdlog::error("model \"{}\": {}; it is left out", settings.name, problem);
    absl::MutexLock lock(&mutex_);
    Entry& entry = entries_[settings.name];
    entry.adapters.erase(name);
    ++entry.status.adapter_load_failures;
  }
  absl::MutexLock lock(&mutex_);
  entries_[settings.name].status.adapter_loads += loads;
  return absl::OkStatus();
}

absl::StatusOr<ModelLifecycle::AdapterUse> ModelLifecycle::BeginAdapterUse(const std::string& model,
                                                                           const std::string& adapter,
                                                                           absl::Time deadline, AdapterDone done) {
  const ModelLease served = repository_->Lease(model);
  if (served == nullptr || served->adapters == nullptr || !served->adapters->evicts()) return AdapterUse{};
  AdapterUse use;
  use.lease = served->adapters->Admit(adapter);
  if (use.lease.id == 0 || use.lease.adapter != nullptr) return use;
  absl::MutexLock lock(&mutex_);
  const auto found = entries_.find(model);
  if (found == entries_.end() || !accepts_) return AdapterUse{};
  Entry& entry = found->second;
  const auto limit = static_cast<size_t>(entry.settings.engine.max_queued_requests);
  if (entry.adapter_waits.size() >= limit) {
    return absl::AbortedError(absl::StrCat(entry.adapter_waits.size(), " requests wait for adapters; limit is ", limit,
                                           " (scheduler.max_queued_requests)"));
  }
  const absl::Time until = std::min(deadline, loading_->Now() + absl::Milliseconds(entry.settings.load_wait_ms));
  use.id = ++last_use_;
  use.ready = false;
  entry.adapter_waits.emplace(use.id, AdapterWait{adapter, std::move(done), until});
  adapter_wait_began_ = true;
  return use;
}

bool ModelLifecycle::AdaptersAwaited() const {
  return std::any_of(entries_.begin(), entries_.end(),
                     [](const auto& row) { return !row.second.adapter_waits.empty(); });
}

void ModelLifecycle::RestoreAdapters() {
  std::vector<std::string> models;
  {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, entry] : entries_) {
      if (!entry.adapter_waits.empty()) models.push_back(name);
    }
  }
  for (const std::string& model : models) RestoreAdapters(model);
}

void ModelLifecycle::RestoreAdapters(const std::string& model) {
  const ModelLease served = repository_->Lease(model);
  for (;;) {
    std::string adapter;
    {
      absl::MutexLock lock(&mutex_);
      const auto found = entries_.find(model);
      if (found == entries_.end() || found->second.adapter_waits.empty()) return;
      adapter = found->second.adapter_waits.begin()->second.adapter;
    }
    absl::StatusOr<engine::AdapterLease> lease = absl::UnavailableError("the model is unloaded");
    if (served != nullptr && served->adapters != nullptr) {
      lease = served->adapters->Restore(adapter);
      if (absl::IsUnavailable(lease.status())) return;  // until a request that runs has ended
    }
    if (!lease.ok()) {
      spdlog::error("model \"{}\": adapter \"{}\": {}", model, adapter, std::string(lease.status().message()));
    }
    EndAdapterWaits(model, adapter, lease);
  }
}

void ModelLifecycle::EndAdapterWaits(const std::string& model, const std::string& adapter,
                                     const absl::StatusOr<engine::AdapterLease>& outcome) {
  std::vector<AdapterDone> ended;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = entries_.find(model);
    if (found == entries_.end()) return;
    std::erase_if(found->second.adapter_waits, [&](auto& row) {
      if (!adapter.empty() && row.second.adapter != adapter) return false;
      ended.push_back(std::move(row.second.done));
      return true;
    });
    if (!outcome.ok() && !adapter.empty()) {
      Entry& entry = found->second;
      ++entry.status.adapter_load_failures;
      const auto wanted = entry.adapters.find(adapter);
      if (wanted != entry.adapters.end()) wanted->second.failure = std::string(outcome.status().message());
    }
  }
  for (const AdapterDone& done : ended) done(outcome);
}

void ModelLifecycle::DropShadowedAdapters() {
  for (auto& [name, entry] : entries_) {
    std::erase_if(entry.adapters, [&](const auto& row) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      if (row.second.configured) return false;
      return std::any_of(entries_.begin(), entries_.end(), [&](const auto& other) {
        const auto same = other.second.adapters.find(row.first);
        return other.first == row.first || (same != other.second.adapters.end() && same->second.configured);
      });
    });
  }
}

}  // namespace dunlin::server
