// SPDX-License-Identifier: Apache-2.0
// The LoRA adapters of a model in the config: models[].adapters and the limits of those that calls load. Plain data and
// pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/adapter_lease.h"

namespace dunlin::server {

inline constexpr size_t kAdapterNameBytesMax = 128;  // as of a model's

struct AdapterSource {
  std::string name;  // what requests call it
  std::string path;  // a PEFT directory or a GGUF file
  friend bool operator==(const AdapterSource&, const AdapterSource&) = default;
};

struct AdapterSettings {
  std::vector<AdapterSource> list;
  int32_t max_adapters = 0;    // in the device's memory at once; 0: the model takes none
  int32_t max_registered = 0;  // by name, >= max_adapters
  size_t host_memory_bytes = 0;
  int32_t max_rank = 0;
  size_t memory_bytes = 0;  // kAutoBytes: as much as max_adapters of max_rank need
  std::string folder;       // that calls load from, absolute; "": from any absolute path
};

// INVALID_ARGUMENT unless the name is one that an adapter may have: not empty, at most kAdapterNameBytesMax, without
// '@', which a profile follows, ',', which separates adapters in a metric's label, and control characters. what: as the
// error calls it.
absl::Status CheckAdapterName(std::string_view what, std::string_view name);

// Of a model of the config whose keys have been checked. at: its path, "models[0]". Errors: INVALID_ARGUMENT (a name,
// fewer models[].max_registered_adapters than models[].max_adapters, more adapters than that).
absl::StatusOr<AdapterSettings> ReadAdapters(const nlohmann::ordered_json& model, const std::string& at);

// What the engine has to know of them.
engine::AdapterLimits LimitsOf(const AdapterSettings& settings);

// The path of an adapter that a call names: a relative one is in the folder. Errors: INVALID_ARGUMENT for one that is
// empty, longer than 4096 bytes, relative without a folder, or outside of it, links followed.
absl::StatusOr<std::string> ResolveAdapterPath(const AdapterSettings& settings, std::string_view path);

}  // namespace dunlin::server
