// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/adapters/load_adapter.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

absl::Status CheckRange(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; limit is [", min, ", ", max, "]"));
}

absl::Status NoneNamed(std::string_view name) {
  return absl::NotFoundError(absl::StrCat("no adapter '", AbslView(name), "' is loaded"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AdapterSet>> AdapterSet::Create(const Model* model, const AdapterLimits& limits) {
  if (absl::Status status = CheckRange("max_adapters", limits.max_adapters, 1, kMaxAdapters); !status.ok()) {
    return status;
  }
  if (absl::Status status = CheckRange("max_rank", limits.max_rank, 1, kMaxAdapterRank); !status.ok()) return status;
  if (model->config().is_encoder()) {
    return absl::FailedPreconditionError(
        absl::StrCat(model->config().architecture, " is an encoder: adapters are served on decoders"));
  }
  const kernels::DeviceOps& ops = *model->device()->ops;
  if (!ops.supports_model({.adapters = true}, nullptr)) {
    return absl::FailedPreconditionError(absl::StrCat(
        kernels::Name(ops.kind), " has no products of adapters; models[].device is cpu for a model with adapters"));
  }
  if (model->adaptable().modules.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat(model->config().architecture, " has no projection that adapters may change"));
  }
  return std::unique_ptr<AdapterSet>(new AdapterSet(model, limits));
}

absl::StatusOr<uint64_t> AdapterSet::Load(const std::string& name, const std::string& path, IfLoaded if_loaded) {
  if (name.empty() || name.size() > kMaxAdapterNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("an adapter's name has ", name.size(), " bytes; limit is [1, ", kMaxAdapterNameBytes, "]"));
  }
  const MutexLock one_at_a_time(&loading_);
  AdapterRoom room{.max_rank = limits_.max_rank, .max_bytes = 0};
  {
    const MutexLock lock(&mutex_);
    if (absl::Status status = CheckRoom(name, if_loaded); !status.ok()) return status;
    const size_t held = Sweep();
    room.max_bytes = limits_.max_bytes - std::min(held, limits_.max_bytes);
  }
  absl::StatusOr<std::shared_ptr<const Adapter>> adapter = LoadAdapter(*model_, path, room);
  if (!adapter.ok()) return adapter.status();
  const uint64_t id = (*adapter)->id();
  std::shared_ptr<const Adapter> replaced;  // released after the lock
  const MutexLock lock(&mutex_);
  Entry& entry = entries_[name];
  replaced = std::exchange(entry.adapter, *std::move(adapter));
  entry.path = path;
  if (replaced != nullptr) unloaded_.emplace_back(replaced);
  return id;
}

absl::Status AdapterSet::CheckRoom(std::string_view name, IfLoaded if_loaded) {
  const bool loaded = entries_.find(name) != entries_.end();
  if (loaded && if_loaded == IfLoaded::kRefuse) {
    return absl::AlreadyExistsError(absl::StrCat("an adapter '", AbslView(name), "' is loaded already"));
  }
  (void)Sweep();
  const size_t held = entries_.size() + unloaded_.size();
  if (held < static_cast<size_t>(limits_.max_adapters) + (loaded ? 1 : 0)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the model has ", entries_.size(), " adapters, and ",
                                                   unloaded_.size(), " that are unloaded but in use; limit is ",
                                                   limits_.max_adapters, " (max_adapters)"));
}

size_t AdapterSet::Sweep() const {
  size_t held = 0;
  std::erase_if(unloaded_, [&held](const std::weak_ptr<const Adapter>& unloaded) {
    const std::shared_ptr<const Adapter> adapter = unloaded.lock();
    if (adapter != nullptr) held += adapter->bytes();
    return adapter == nullptr;
  });
  for (const auto& [name, entry] : entries_) held += entry.adapter->bytes();
  return held;
}

absl::Status AdapterSet::Unload(std::string_view name) {
  std::shared_ptr<const Adapter> unloaded;  // released after the lock
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return NoneNamed(name);
  unloaded = std::move(found->second.adapter);
  unloaded_.emplace_back(unloaded);
  entries_.erase(found);
  return absl::OkStatus();
}

AdapterLease AdapterSet::Lookup(std::string_view name) const {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  return {found->second.adapter, found->second.adapter->id()};
}

std::vector<AdapterInfo> AdapterSet::List() const {
  const MutexLock lock(&mutex_);
  std::vector<AdapterInfo> list;
  list.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    list.push_back({.name = name,
                    .path = entry.path,
                    .id = entry.adapter->id(),
                    .rank = entry.adapter->rank(),
                    .bytes = entry.adapter->bytes(),
                    .targets = entry.adapter->targets(),
                    .in_use = entry.adapter.use_count() > 1});
  }
  return list;
}

size_t AdapterSet::bytes() const {
  const MutexLock lock(&mutex_);
  return Sweep();
}

}  // namespace dunlin::engine
