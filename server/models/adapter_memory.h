// SPDX-License-Identifier: Apache-2.0
// What the LoRA adapters of a model may take where models[].adapter_memory_bytes is "auto". Pure.
#pragma once

#include <cstddef>

#include "engine/model/load/inspect.h"
#include "engine/request/options.h"
#include "server/models/kv_share.h"

namespace dunlin::server {

struct AdapterMemory {
  size_t bytes = 0;  // what the config says, or of "auto" all but experts
  KvShare experts;   // what "auto" has on top: in MiB, none at least
};

// Of "auto": max_adapters of max_rank for every matrix, in FP32.
AdapterMemory AdapterMemoryOf(const engine::ModelSummary& summary, const engine::AdapterLimits& limits);

}  // namespace dunlin::server
