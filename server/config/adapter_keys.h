// SPDX-License-Identifier: Apache-2.0
// The keys of a model's LoRA adapters, rows of the key table; adapter_settings.cc reads them.
#pragma once

#include <cstdint>

#include "engine/request/adapter_lease.h"
#include "server/config/key_table.h"

namespace dunlin::server {

inline constexpr ConfigKey kAdapterKeys[] = {
    {"models[].adapters[].name", KeyType::kString, nullptr, 1, 128, nullptr,
     "Name of a LoRA adapter, which requests give as their model: one that no other model or adapter has, without '@'"},
    {"models[].adapters[].path", KeyType::kString, nullptr, 1, 4096, nullptr,
     "PEFT directory (adapter_config.json, adapter_model.safetensors) or GGUF file; relative paths are resolved "
     "against the config file's folder"},
    {"models[].max_adapters", KeyType::kInteger, "0", 0, engine::kMaxAdapters, nullptr,
     "Adapters that the model may have at once, those of models[].adapters and those that calls load; 0: as many as "
     "models[].adapters has"},
    {"models[].max_registered_adapters", KeyType::kInteger, "0", 0, engine::kMaxAdapters, nullptr,
     "Adapters that the model may have by name; beyond max_adapters, the least recently used ones leave the device's "
     "memory until their next request; 0: max_adapters"},
    {"models[].adapter_host_memory_bytes", KeyType::kInteger, "0", 0, int64_t{1} << 40, nullptr,
     "Host memory for the weights of adapters that have left the device's memory; others are read from their files "
     "again"},
    {"models[].max_adapter_rank", KeyType::kInteger, "64", 1, engine::kMaxAdapterRank, nullptr,
     "Largest rank of an adapter; buffers of a step and, with adapter_memory_bytes auto, memory are planned for it"},
    {"models[].adapter_memory_bytes", KeyType::kIntegerOrAuto, "\"auto\"", 1 << 20, int64_t{1} << 40, nullptr,
     "Memory for the weights of adapters; auto: what max_adapters of max_adapter_rank take, of experts as far as "
     "memory goes"},
    {"models[].adapter_folder", KeyType::kString, "\"\"", 0, 4096, nullptr,
     "Folder that calls may load adapters from, with what links in it lead to elsewhere left out; relative paths are "
     "resolved against the config file's folder; empty: any absolute path"},
};

}  // namespace dunlin::server
