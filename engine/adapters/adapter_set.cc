// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter_set.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_ranks.h"
#include "engine/adapters/load_adapter.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

absl::Status CheckRange(const char* name, int64_t value, int64_t min, int64_t max) {
  if (value >= min && value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; limit is [", min, ", ", max, "]"));
}

}  // namespace

absl::Status AdapterSet::Unknown(std::string_view name) {
  return absl::NotFoundError(absl::StrCat("no adapter '", AbslView(name), "' is loaded"));
}

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
  AdapterLimits own = limits;
  if (own.max_registered == 0) own.max_registered = own.max_adapters;
  absl::Status registered = CheckRange("max_registered", own.max_registered, own.max_adapters, kMaxAdapters);
  if (!registered.ok()) return registered;
  return std::unique_ptr<AdapterSet>(new AdapterSet(model, own));
}

absl::StatusOr<uint64_t> AdapterSet::Load(const std::string& name, const std::string& path, IfLoaded if_loaded) {
  if (name.empty() || name.size() > kMaxAdapterNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("an adapter's name has ", name.size(), " bytes; limit is [1, ", kMaxAdapterNameBytes, "]"));
  }
  const MutexLock one_at_a_time(&loading_);
  AdapterRoom room{.max_rank = limits_.max_rank, .max_bytes = limits_.max_bytes};
  {
    const MutexLock lock(&mutex_);
    absl::Status status = CheckName(name, if_loaded);
    if (status.ok() && !evicts()) status = CheckCount(name);
    if (!status.ok()) return status;
    if (!evicts()) room.max_bytes = RoomLeft();
  }
  absl::StatusOr<PackedAdapter> packed = ReadAdapter(*model_, path, room);
  if (!packed.ok()) return packed.status();
  const uint64_t id = NextAdapterId();
  bool fits = true;
  if (evicts()) {
    const MutexLock lock(&mutex_);
    fits = CheckCount(name).ok() && packed->layout->device_bytes <= RoomLeft();
  }
  std::shared_ptr<const Adapter> adapter;
  if (fits) {
    auto created = Adapter::Create(AdapterDevices(*model_), *packed, id);
    if (!created.ok())
      return absl::Status(created.status().code(), absl::StrCat(path, ": ", created.status().message()));
    adapter = *std::move(created);
  }
  std::shared_ptr<const Adapter> replaced;  // released after the lock
  const MutexLock lock(&mutex_);
  Entry& entry = entries_[name];
  replaced = std::move(entry.adapter);
  entry = {
      .path = path, .id = id, .layout = packed->layout, .adapter = std::move(adapter), .packed = {}, .used = ++uses_};
  if (replaced != nullptr) unloaded_.emplace_back(replaced);
  if (!fits) KeepPacked(&entry, *std::move(packed));
  return id;
}

absl::Status AdapterSet::CheckName(std::string_view name, IfLoaded if_loaded) {
  const bool loaded = entries_.find(name) != entries_.end();
  if (loaded && if_loaded == IfLoaded::kRefuse) {
    return absl::AlreadyExistsError(absl::StrCat("an adapter '", AbslView(name), "' is loaded already"));
  }
  if (!evicts() || loaded || entries_.size() < static_cast<size_t>(limits_.max_registered)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the model has ", entries_.size(), " adapters; limit is ",
                                                   limits_.max_registered, " (max_registered_adapters)"));
}

absl::Status AdapterSet::CheckCount(std::string_view name) {
  (void)Sweep();
  size_t resident = 0;
  bool own = false;
  for (const auto& [other, entry] : entries_) {
    resident += entry.adapter != nullptr ? 1 : 0;
    own = own || (other == name && entry.adapter != nullptr);
  }
  if (resident + unloaded_.size() < static_cast<size_t>(limits_.max_adapters) + (own ? 1 : 0)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the model has ", resident, " adapters, and ", unloaded_.size(),
                                                   " that are unloaded but in use; limit is ", limits_.max_adapters,
                                                   " (max_adapters)"));
}

size_t AdapterSet::RoomLeft() const {
  return limits_.max_bytes - std::min(Sweep(), limits_.max_bytes);
}

size_t AdapterSet::Sweep() const {
  size_t held = 0;
  std::erase_if(unloaded_, [&held](const std::weak_ptr<const Adapter>& unloaded) {
    const std::shared_ptr<const Adapter> adapter = unloaded.lock();
    if (adapter != nullptr) held += adapter->bytes();
    return adapter == nullptr;
  });
  for (const auto& [name, entry] : entries_) held += entry.adapter != nullptr ? entry.adapter->bytes() : 0;
  return held;
}

absl::Status AdapterSet::Unload(std::string_view name) {
  std::shared_ptr<const Adapter> unloaded;  // released after the lock
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return Unknown(name);
  unloaded = std::move(found->second.adapter);
  if (unloaded != nullptr) unloaded_.emplace_back(unloaded);
  entries_.erase(found);
  return absl::OkStatus();
}

AdapterLease AdapterSet::Lookup(std::string_view name) const {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  return found == entries_.end() ? AdapterLease{} : AdapterLease{found->second.adapter, found->second.id};
}

std::vector<AdapterInfo> AdapterSet::List() const {
  const MutexLock lock(&mutex_);
  std::vector<AdapterInfo> list;
  list.reserve(entries_.size());
  for (const auto& [name, entry] : entries_) {
    list.push_back({.name = name,
                    .path = entry.path,
                    .id = entry.id,
                    .rank = entry.layout->rank,
                    .bytes = entry.layout->device_bytes,
                    .targets = entry.layout->targets,
                    .resident = entry.adapter != nullptr,
                    .in_use = entry.adapter.use_count() > 1});
  }
  return list;
}

size_t AdapterSet::bytes() const {
  const MutexLock lock(&mutex_);
  return Sweep();
}

}  // namespace dunlin::engine
