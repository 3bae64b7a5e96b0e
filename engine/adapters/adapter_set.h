// SPDX-License-Identifier: Apache-2.0
// The low-rank adapters of one model, by name.
//
// Contract. Create one for a model whose EngineOptions::adapters.max_adapters is > 0, with those limits, and Load what
// the config names. A request takes Lookup(name) as Request::adapter, before it is validated and submitted; the lease
// keeps the adapter in memory until the sequence has ended, whatever is loaded or unloaded meanwhile. Unload takes
// effect for later lookups at once. An adapter that is loaded again, or replaced, has another id: no request finds
// pages of the prefix cache that the former one computed. Load reads files and packs them: it takes some milliseconds
// to seconds on the thread that calls it, and disturbs no step. Every lease ends before the model's device is closed.
// Thread rule: all functions from any thread; one Load at a time reads, others wait.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
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
  size_t bytes = 0;                  // of device memory
  std::vector<std::string> targets;  // "q_proj", sorted
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
  // max_bytes or the device's memory.
  absl::StatusOr<uint64_t> Load(const std::string& name, const std::string& path,
                                IfLoaded if_loaded = IfLoaded::kRefuse);
  // NOT_FOUND when there is none of that name.
  absl::Status Unload(std::string_view name);

  // id is 0 when there is none of that name.
  AdapterLease Lookup(std::string_view name) const;
  // Sorted by name.
  std::vector<AdapterInfo> List() const;

  const AdapterLimits& limits() const { return limits_; }
  // Of those loaded and those unloaded but in use.
  size_t bytes() const;

 private:
  struct Entry {
    std::string path;
    std::shared_ptr<const Adapter> adapter;
  };

  AdapterSet(const Model* model, const AdapterLimits& limits) : model_(model), limits_(limits) {}
  // What the adapters take that are still there, `name`'s own only if it stays.
  absl::Status CheckRoom(std::string_view name, IfLoaded if_loaded) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // Of all adapters that are still in memory.
  size_t Sweep() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Model* const model_;
  const AdapterLimits limits_;
  Mutex loading_;        // held while one is read; taken before mutex_
  mutable Mutex mutex_;  // guards what follows; never held while files are read
  std::map<std::string, Entry, std::less<>> entries_ ABSL_GUARDED_BY(mutex_);
  mutable std::vector<std::weak_ptr<const Adapter>> unloaded_ ABSL_GUARDED_BY(mutex_);  // that may still be in use
};

}  // namespace dunlin::engine
