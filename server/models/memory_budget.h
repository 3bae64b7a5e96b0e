// SPDX-License-Identifier: Apache-2.0
// The memory that a server will hold, planned before a weight is read: what each model needs, what the process needs
// beside them, and how the rest becomes KV pages where models[].kv_cache.memory_bytes is "auto".
// Thread rule: one call at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "server/config/config.h"
#include "server/models/plan_limit.h"
#include "server/models/request_memory.h"

namespace dunlin::server {

// Resident bytes of one model.
struct ModelMemory {
  std::string name;
  const kernels::Device* device = nullptr;
  bool encoder = false;
  bool on_host = true;          // all of it is in the host's memory; else only the tokenizer is
  bool kv_auto = false;         // kv was chosen here
  size_t weights = 0;           // of every precision
  size_t kv = 0;                // the pages, and the states of a recurrent model
  size_t workspace = 0;         // buffers of a step, and the index of the pages
  size_t text = 0;              // the tokenizer
  size_t draft = 0;             // all of the draft model
  size_t draft_kv = 0;          // its pages, of these
  size_t images = 0;            // all of the image encoder
  size_t image_rows = 0;        // on the host: rows of images, and what is decoded at once
  size_t adapters = 0;          // what LoRA adapters may take
  size_t evicted_adapters = 0;  // what those may take in the host's memory that have left the device's
  int32_t num_ranks = 1;        // among which weights and pages are divided
  int64_t pages = 0;            // and as many as the states take
  size_t page_bytes = 0;
  int64_t contexts = 0;        // full ones that the pages hold at once; 0 for an encoder
  int32_t context_tokens = 0;  // of one
  bool lacks_context = false;  // the pages hold less than one
  int32_t config_tokens = 0;   // models[].max_context_tokens, if the model has fewer

  size_t on_device() const { return weights + kv + workspace + draft + images + adapters; }
  size_t beside_device() const { return text + evicted_adapters + image_rows; }
  size_t total() const { return on_device() + beside_device(); }
  size_t on_host_bytes() const { return on_host ? total() : beside_device(); }
};

struct MemoryBudget {
  std::vector<ModelMemory> models;
  size_t edge = 0;         // open streams, as many as limits.max_concurrent_requests
  size_t process = 0;      // code, libraries, threads, the allocator's slack
  RequestMemory requests;  // taken as requests need it
  size_t limit = 0;        // host memory that may be planned with
  std::string limit_source;
  std::string ulimit;  // PlanLimit's: not empty where allocations fail beyond the limit, so that no plan exceeds it
  int32_t share_percent = 0;  // PlanLimit's

  size_t resident() const;  // host memory without requests
  size_t total() const { return resident() + requests.total(); }
};

// The process and the requests of a server with as many models as the config has, without these. Errors: as
// PlanRequestMemory; RESOURCE_EXHAUSTED, with the plan's figures, where they alone exceed a ulimit.
absl::StatusOr<MemoryBudget> EmptyBudget(const Config& config, const HostFacts& host);

// EmptyBudget with the config's models. devices: one per model of the config, in its order. RESOURCE_EXHAUSTED, with
// the plan's figures, when a model with automatic KV memory gets no full context, or the plan exceeds a ulimit; else
// the errors of InspectModel and PlanMemory, with the model's name.
absl::StatusOr<MemoryBudget> PlanServerMemory(const Config& config, const std::vector<kernels::Device*>& devices,
                                              const HostFacts& host);

// Adds the config's models to what `budget` has already. Errors: as above.
absl::StatusOr<MemoryBudget> AddToBudget(MemoryBudget budget, const Config& config,
                                         const std::vector<kernels::Device*>& devices);

// By more than what rounding to whole huge pages adds to an automatic plan.
bool ExceedsLimit(const MemoryBudget& budget);

// RESOURCE_EXHAUSTED with the plan's figures. advice: a sentence without its full stop.
absl::Status MemoryRefused(const MemoryBudget& budget, std::string_view advice);

// One line per model, then what is resident, then what requests may take and the total.
std::vector<std::string> Describe(const MemoryBudget& budget);

// What an operator may not have meant: a context longer than the model's, a plan beyond its limit.
std::vector<std::string> WarningsOf(const MemoryBudget& budget);

}  // namespace dunlin::server
