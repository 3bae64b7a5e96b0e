// SPDX-License-Identifier: Apache-2.0
// What a server says of a model that it knows, served or not. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "engine/request/adapter_lease.h"

namespace dunlin::server {

enum class ModelState : uint8_t { kUnloaded, kLoading, kReady, kUnloading, kFailed };
inline constexpr size_t kNumModelStates = 5;

struct ModelStateTraits {
  ModelState state;
  const char* name;  // in metrics and messages
};
inline constexpr ModelStateTraits kModelStateTable[kNumModelStates] = {
    {ModelState::kUnloaded, "unloaded"},    // known by the config, not in memory
    {ModelState::kLoading, "loading"},      // for the first time, or again after it was unloaded
    {ModelState::kReady, "ready"},          // requests are taken, also while a new version is loading
    {ModelState::kUnloading, "unloading"},  // takes no requests; those that run go on
    {ModelState::kFailed, "failed"},        // could not be loaded, and no earlier version is served
};

constexpr const char* Name(ModelState state) {
  return kModelStateTable[static_cast<size_t>(state)].name;
}

// A LoRA adapter that a model has, or should have.
struct AdapterStatus {
  std::string name;
  std::string path;     // may name files of the server
  bool loaded = false;  // false: the model is not in memory, or the adapter could not be loaded
  uint64_t id = 0;      // of what is loaded: another one whenever its files are read again
  int32_t rank = 0;
  size_t bytes = 0;          // of its weights in memory
  std::string failure = {};  // why the last load failed; "" if it did not. May name files
  bool resident = false;     // the weights are in the device's memory; else a request brings them there
};

struct ModelStatus {
  std::string name;
  ModelState state = ModelState::kUnloaded;
  bool loading = false;  // a version is being loaded: of a model that is ready, in addition to the served one
  std::string failure;   // why the last load failed; "" if it did not. May name files of the server
  uint64_t loads = 0;    // that succeeded
  uint64_t load_failures = 0;
  // Of a model with models[].idle_unload_s: its next request loads it, if it is not in memory. False once it was
  // unloaded by a call, and for a while after a load that failed.
  bool on_request = false;
  // Of a model with models[].idle_unload_s that is in memory: when it is unloaded if no request uses it until then.
  absl::Time unloads_at = absl::InfiniteFuture();
  size_t waiting = 0;                              // requests that wait for it to be loaded
  uint64_t idle_unloads = 0;                       // times that it was unloaded for models[].idle_unload_s
  uint64_t evictions = 0;                          // times that it was unloaded for the memory that another one needed
  int32_t max_adapters = 0;                        // 0: it takes none
  std::vector<AdapterStatus> adapters = {};        // by name
  std::vector<std::string> waiting_adapters = {};  // names of those with requests that wait for their first token
  std::vector<std::string> running_adapters = {};  // and of those with requests that have drawn one
  uint64_t adapter_loads = 0;                      // that succeeded
  uint64_t adapter_load_failures = 0;
  engine::AdapterMoves adapter_moves = {};  // of the served version
  bool encoder = false;                     // known once it was planned
  int32_t max_context_tokens = 0;           // the same
  bool unhealthy = false;                   // its engine stands still, or its device has failed
  int32_t rank_at_fault = -1;               // then, of a divided model: the rank; -1: unknown

  // What a router needs to know: a request is taken now, or once the model is loaded for it.
  bool takes_requests() const { return state == ModelState::kReady || on_request; }
};

}  // namespace dunlin::server
