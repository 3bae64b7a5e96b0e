// SPDX-License-Identifier: Apache-2.0
// The low-rank adapters of one model, by name.
//
// Contract. Create one for a model whose EngineOptions::adapters.max_adapters is > 0, with those limits, and Load what
// the config names. A request takes Lookup(name) as Request::adapter, before it is validated and submitted; the lease
// keeps the adapter in memory until the sequence has ended, whatever is loaded or unloaded meanwhile. Unload takes
// effect for later lookups at once. An adapter that is loaded again, or replaced, has another id: no request finds
// pages of the prefix cache that the former one computed. Load reads files and packs them: it takes some milliseconds
// to seconds on the thread that calls it, and disturbs no step. Every lease ends before the model's device is closed.
// With more names than adapters in device memory (AdapterLimits::max_registered), a request takes Admit instead, and
// where that gives none waits for Restore, which evicts the adapter that was used least recently, and has no lease: to
// host memory, as far as max_host_bytes has room, else it is read again from its files. One that comes back with the
// same bytes has the same id.
// Thread rule: all functions from any thread; one Load or Restore at a time reads, others wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/adapters/adapter.h"
#include "engine/base/mutex.h"
#include "engine/model/model.h"
#include "engine/request/adapter_lease.h"

namespace dunlin::engine {

// A loaded adapter, as List tells of it.
struct AdapterInfo {
  std::string name;
  std::string path;
  uint64_t id = 0;
  int32_t rank = 0;                  // the largest of its matrices
  size_t bytes = 0;                  // of device memory, when it is there
  std::vector<std::string> targets;  // "q_proj", sorted
  bool resident = false;             // it is in device memory
  bool in_use = false;               // some request holds a lease
};

class AdapterSet {
 public:
  // What Load does where the name is taken.
  enum class IfLoaded : uint8_t { kRefuse, kReplace };

  // model outlives the set. FAILED_PRECONDITION with the reason where the model cannot have adapters: its device has no
  // such products, it is an encoder, or none of its projections can be adapted. INVALID_ARGUMENT names a limit that is
  // out of its range.
  static absl::StatusOr<std::unique_ptr<AdapterSet>> Create(const Model* model, const AdapterLimits& limits);

  // Reads a PEFT directory (adapter_config.json, adapter_model.safetensors) or a GGUF adapter file. Returns the id. A
  // failed load changes nothing. ALREADY_EXISTS where the name is taken (kRefuse). INVALID_ARGUMENT: a name of 0 or
  // more than kMaxAdapterNameBytes bytes, or files that are malformed, not of this model or not supported: the message
  // names file, field or tensor, value and limit. NOT_FOUND: a missing file. RESOURCE_EXHAUSTED: max_adapters,
  // max_registered, max_bytes or the device's memory. Where adapters are evicted, one that finds the device's share
  // taken is registered all the same.
  absl::StatusOr<uint64_t> Load(const std::string& name, const std::string& path,
                                IfLoaded if_loaded = IfLoaded::kRefuse);
  // NOT_FOUND when there is none of that name.
  absl::Status Unload(std::string_view name);

  // id is 0 when there is none of that name; adapter is null when it is not in device memory.
  AdapterLease Lookup(std::string_view name) const;
  // Whether adapters are evicted, so that requests have to be admitted.
  bool evicts() const { return limits_.max_registered > limits_.max_adapters; }
  // As Lookup, of a request that begins. adapter is null, too, while the adapter is to make room for another one: its
  // requests wait with that one's, so that a busy adapter keeps none out.
  AdapterLease Admit(std::string_view name);
  // Brings an adapter to device memory, unless it is there. NOT_FOUND: there is none of that name. UNAVAILABLE: all
  // that are there have requests; call again. Else as Load, of the files that are read again.
  absl::StatusOr<AdapterLease> Restore(std::string_view name);
  AdapterMoves moves() const;
  // Sorted by name.
  std::vector<AdapterInfo> List() const;

  const AdapterLimits& limits() const { return limits_; }
  // Of those loaded and those unloaded but in use.
  size_t bytes() const;

 private:
  struct Entry {
    std::string path;
    uint64_t id = 0;
    std::shared_ptr<const AdapterLayout> layout;
    std::shared_ptr<const Adapter> adapter;  // null: it is not in device memory
    std::optional<PackedAdapter> packed;     // in host memory, where it is evicted and there was room
    uint64_t used = 0;                       // larger: later
    bool gives_way = false;                  // its requests wait until it has been evicted
  };
  using Entries = std::map<std::string, Entry, std::less<>>;
  // What an adapter that is not in device memory was.
  struct Origin {
    std::string path;
    uint64_t id = 0;
    std::shared_ptr<const AdapterLayout> layout;
    std::optional<PackedAdapter> packed;
  };

  AdapterSet(const Model* model, const AdapterLimits& limits) : model_(model), limits_(limits) {}
  static absl::Status Unknown(std::string_view name);
  // Whether the name may be loaded. Errors: as Load.
  absl::Status CheckName(std::string_view name, IfLoaded if_loaded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Whether one more may be in device memory, in addition to those that are still there; of `name` the former one may.
  absl::Status CheckCount(std::string_view name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Device memory that is left.
  size_t RoomLeft() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Evicts until one of these bytes fits. UNAVAILABLE: all others have requests; one of them gives way from now on.
  absl::Status MakeRoom(std::string_view name, size_t bytes) ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_);
  // The least recently used one in device memory but for `but`; without a lease if there is such a one. End: none.
  Entries::iterator FindVictim(std::string_view but) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of one that was evicted: what is kept in host memory.
  absl::Status KeepEvicted(std::string_view name, const Adapter& adapter) ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_);
  absl::StatusOr<AdapterLease> RestoreFrom(std::string_view name, Origin* origin)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(loading_);
  // Keeps it in host memory if there is room, once others that were used earlier are dropped.
  void KeepPacked(Entry* entry, PackedAdapter packed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  size_t HostBytes() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of all adapters that are still in device memory.
  size_t Sweep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Model* const model_;
  const AdapterLimits limits_;
  Mutex loading_;        // held while one is read or moved; taken before mutex_
  mutable Mutex mutex_;  // guards what follows; never held while files are read
  Entries entries_ ABSL_GUARDED_BY(mutex_);
  uint64_t uses_ ABSL_GUARDED_BY(mutex_) = 0;
  AdapterMoves moves_ ABSL_GUARDED_BY(mutex_);                                          // but for host_bytes
  mutable std::vector<std::weak_ptr<const Adapter>> unloaded_ ABSL_GUARDED_BY(mutex_);  // that may still be in use
};

}  // namespace dunlin::engine
