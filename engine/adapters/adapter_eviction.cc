// SPDX-License-Identifier: Apache-2.0
// AdapterSet with more names than adapters in device memory: who leaves it, and how one comes back.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/adapters/adapter_ranks.h"
#include "engine/adapters/adapter_set.h"
#include "engine/adapters/load_adapter.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {

AdapterLease AdapterSet::Admit(std::string_view name) {
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return {};
  Entry& entry = found->second;
  if (entry.adapter == nullptr || entry.gives_way) return {nullptr, entry.id};
  entry.used = ++uses_;
  return {entry.adapter, entry.id};
}

absl::StatusOr<AdapterLease> AdapterSet::Restore(std::string_view name) {
  const MutexLock one_at_a_time(&loading_);
  Origin origin;
  {
    const MutexLock lock(&mutex_);
    const auto found = entries_.find(name);
    if (found == entries_.end()) return Unknown(name);
    Entry& entry = found->second;
    if (entry.adapter != nullptr) {
      entry.gives_way = false;
      entry.used = ++uses_;
      return AdapterLease{entry.adapter, entry.id};
    }
    // Taken, so that what is evicted for it does not take its place.
    origin = {entry.path, entry.id, entry.layout, std::exchange(entry.packed, std::nullopt)};
  }
  absl::StatusOr<AdapterLease> lease = RestoreFrom(name, &origin);
  if (!lease.ok() && origin.packed.has_value()) {
    const MutexLock lock(&mutex_);
    const auto found = entries_.find(name);
    if (found != entries_.end()) KeepPacked(&found->second, *std::move(origin.packed));
  }
  return lease;
}

absl::StatusOr<AdapterLease> AdapterSet::RestoreFrom(std::string_view name, Origin* origin) {
  if (absl::Status status = MakeRoom(name, origin->layout->device_bytes); !status.ok()) return status;
  uint64_t id = origin->id;
  if (!origin->packed.has_value()) {
    absl::StatusOr<PackedAdapter> read =
        ReadAdapter(*model_, origin->path, {.max_rank = limits_.max_rank, .max_bytes = limits_.max_bytes});
    if (!read.ok()) return read.status();
    const AdapterLayout& layout = *read->layout;
    if (layout.bytes != origin->layout->bytes || layout.hash != origin->layout->hash) id = NextAdapterId();
    if (absl::Status status = MakeRoom(name, layout.device_bytes); !status.ok()) return status;
    const MutexLock lock(&mutex_);
    ++moves_.reads;
    origin->packed = *std::move(read);
  }
  absl::StatusOr<std::shared_ptr<const Adapter>> adapter =
      Adapter::Create(AdapterDevices(*model_), *origin->packed, id);
  if (!adapter.ok()) return adapter.status();
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found == entries_.end()) return Unknown(name);
  Entry& entry = found->second;
  entry.id = id;
  entry.layout = origin->packed->layout;
  entry.adapter = *std::move(adapter);
  entry.used = ++uses_;
  ++moves_.restores;
  return AdapterLease{entry.adapter, id};
}

absl::Status AdapterSet::MakeRoom(std::string_view name, size_t bytes) {
  for (;;) {
    std::string victim;
    std::shared_ptr<const Adapter> adapter;
    {
      const MutexLock lock(&mutex_);
      if (CheckCount(name).ok() && bytes <= RoomLeft()) return absl::OkStatus();
      const auto found = FindVictim(name);
      if (found == entries_.end()) {
        return absl::UnavailableError("adapters that are unloaded but in use take the model's memory for adapters");
      }
      Entry& entry = found->second;
      if (entry.adapter.use_count() > 1) {
        entry.gives_way = true;
        return absl::UnavailableError(absl::StrCat("every adapter in memory has requests; limit is ",
                                                   limits_.max_adapters, " (max_adapters) and ", limits_.max_bytes,
                                                   " bytes"));
      }
      victim = found->first;
      adapter = std::exchange(entry.adapter, nullptr);
      entry.gives_way = false;
      ++moves_.evictions;
    }
    if (absl::Status status = KeepEvicted(victim, *adapter); !status.ok()) return status;
  }
}

AdapterSet::Entries::iterator AdapterSet::FindVictim(std::string_view but) {
  auto victim = entries_.end();
  for (auto entry = entries_.begin(); entry != entries_.end(); ++entry) {
    if (entry->second.adapter == nullptr || entry->first == but) continue;
    const auto order = [](const Entry& of) { return std::pair(of.adapter.use_count() > 1, of.used); };
    if (victim == entries_.end() || order(entry->second) < order(victim->second)) victim = entry;
  }
  return victim;
}

absl::Status AdapterSet::KeepEvicted(std::string_view name, const Adapter& adapter) {
  if (adapter.packed_bytes() > limits_.max_host_bytes) return absl::OkStatus();
  absl::StatusOr<PackedAdapter> packed = adapter.Pack();
  if (!packed.ok()) return packed.status();
  const MutexLock lock(&mutex_);
  const auto found = entries_.find(name);
  if (found != entries_.end()) KeepPacked(&found->second, *std::move(packed));
  return absl::OkStatus();
}

void AdapterSet::KeepPacked(Entry* entry, PackedAdapter packed) {
  const size_t bytes = packed.matrices.size();
  while (bytes + HostBytes() > limits_.max_host_bytes) {
    Entry* oldest = nullptr;
    for (auto& [name, other] : entries_) {
      const bool earlier = other.packed.has_value() && other.used < entry->used;
      if (earlier && (oldest == nullptr || other.used < oldest->used)) oldest = &other;
    }
    if (oldest == nullptr) return;
    oldest->packed.reset();
  }
  entry->packed = std::move(packed);
}

size_t AdapterSet::HostBytes() const {
  size_t bytes = 0;
  for (const auto& [name, entry] : entries_) bytes += entry.packed.has_value() ? entry.packed->matrices.size() : 0;
  return bytes;
}

AdapterMoves AdapterSet::moves() const {
  const MutexLock lock(&mutex_);
  AdapterMoves moves = moves_;
  moves.host_bytes = HostBytes();
  return moves;
}

}  // namespace dunlin::engine
