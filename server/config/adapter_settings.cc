// SPDX-License-Identifier: Apache-2.0
#include "server/config/adapter_settings.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "engine/request/adapter_lease.h"
#include "server/config/config.h"

namespace dunlin::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxPathBytes = 4096;

// Whether the path is in the folder, or would be.
bool IsInside(const fs::path& folder, const fs::path& path) {
  const auto [end, rest] = std::mismatch(folder.begin(), folder.end(), path.begin(), path.end());
  return end == folder.end() && rest != path.end();
}

}  // namespace

absl::Status CheckAdapterName(std::string_view what, std::string_view name) {
  if (name.empty() || name.size() > kAdapterNameBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat(engine::AbslView(what), " has ", name.size(), " bytes; limit is [1, ", kAdapterNameBytesMax, "]"));
  }
  const auto is_forbidden = [](char c) { return c == '@' || c == ',' || absl::ascii_iscntrl(static_cast<uint8_t>(c)); };
  if (std::none_of(name.begin(), name.end(), is_forbidden)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(engine::AbslView(what), " has an '@', a ',' or a control character; limit is a name without them"));
}

absl::StatusOr<AdapterSettings> ReadAdapters(const nlohmann::ordered_json& model, const std::string& at) {
  AdapterSettings settings;
  settings.max_adapters = model.at("max_adapters").get<int32_t>();
  settings.max_registered = model.at("max_registered_adapters").get<int32_t>();
  settings.host_memory_bytes = model.at("adapter_host_memory_bytes").get<size_t>();
  settings.max_rank = model.at("max_adapter_rank").get<int32_t>();
  const auto& memory = model.at("adapter_memory_bytes");
  settings.memory_bytes = memory.is_string() ? kAutoBytes : memory.get<size_t>();
  settings.folder = model.at("adapter_folder").get<std::string>();
  const size_t entries = model.contains("adapters") ? model["adapters"].size() : 0;
  for (size_t i = 0; i < entries; ++i) {
    const auto& adapter = model["adapters"][i];
    AdapterSource source{adapter.at("name").get<std::string>(), adapter.at("path").get<std::string>()};
    absl::Status named = CheckAdapterName(absl::StrCat(at, ".adapters[", i, "].name"), source.name);
    if (!named.ok()) return named;
    settings.list.push_back(std::move(source));
  }
  const auto count = static_cast<int32_t>(settings.list.size());
  if (settings.max_adapters == 0) settings.max_adapters = count;
  const bool evicts = settings.max_registered != 0;
  if (!evicts) settings.max_registered = settings.max_adapters;
  if (settings.max_adapters == 0 && evicts) {
    return absl::InvalidArgumentError(absl::StrCat(at, ".max_registered_adapters is ", settings.max_registered,
                                                   "; limit is 0 where ", at, ".max_adapters is 0"));
  }
  if (settings.max_registered < settings.max_adapters) {
    return absl::InvalidArgumentError(absl::StrCat(at, ".max_registered_adapters is ", settings.max_registered,
                                                   "; limit is [", settings.max_adapters, ", ", engine::kMaxAdapters,
                                                   "] (", at, ".max_adapters), or 0"));
  }
  if (count <= settings.max_registered) return settings;
  return absl::InvalidArgumentError(absl::StrCat(at, ".adapters has ", count, " entries; limit is ",
                                                 settings.max_registered, " (", at,
                                                 evicts ? ".max_registered_adapters)" : ".max_adapters)"));
}

engine::AdapterLimits LimitsOf(const AdapterSettings& settings) {
  return {.max_adapters = settings.max_adapters,
          .max_rank = settings.max_rank,
          .max_bytes = settings.memory_bytes,
          .max_registered = settings.max_registered,
          .max_host_bytes = settings.host_memory_bytes};
}

absl::StatusOr<std::string> ResolveAdapterPath(const AdapterSettings& settings, std::string_view path) {
  if (path.empty() || path.size() > kMaxPathBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("the adapter's path has ", path.size(), " bytes; limit is [1, ", kMaxPathBytes, "]"));
  }
  const fs::path given{std::string(path)};
  if (settings.folder.empty()) {
    if (given.is_absolute()) return given.lexically_normal().string();
    return absl::InvalidArgumentError(
        "the adapter's path is relative; limit is an absolute path, or one in models[].adapter_folder where that is "
        "set");
  }
  std::error_code error;
  const fs::path folder = fs::weakly_canonical(settings.folder, error);
  const fs::path real = error ? fs::path() : fs::weakly_canonical(folder / given, error);
  if (!error && IsInside(folder, real)) return real.string();
  return absl::InvalidArgumentError(
      "the adapter's path is outside of the folder that calls may load from; limit is models[].adapter_folder");
}

}  // namespace dunlin::server
