// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/shard_list.h"

#include <charconv>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"

namespace dunlin::engine {
namespace {

constexpr const char* kSingleFile = "model.safetensors";
constexpr const char* kIndexFile = "model.safetensors.index.json";
constexpr const char* kTorchFile = "pytorch_model.bin";
constexpr const char* kTorchIndexFile = "pytorch_model.bin.index.json";
constexpr const char* kTorchEnding = ".bin";
constexpr uint64_t kMaxIndexBytes = uint64_t{10} << 20;  // a 90,000-tensor index has 9 MB

using Names = std::vector<std::string>;

absl::Status TooManyShards(size_t count) {
  return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", count, " files; limit is ", kMaxShards));
}

// The files that an index names, all of which end in `ending`.
absl::StatusOr<Names> ListIndexedShards(const Directory& directory, const char* index_file, const char* ending) {
  const absl::StatusOr<std::string> text = directory.ReadFile(index_file, kMaxIndexBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> index = ParseJsonObject(*text, index_file);
  if (!index.ok()) return index.status();
  JsonFields fields(*index, index_file);
  const nlohmann::json* weight_map = fields.Object("weight_map");
  if (weight_map == nullptr || weight_map->empty()) fields.Fail("weight_map is missing or empty");
  if (!fields.status().ok()) return fields.status();
  std::set<std::string> names;
  for (const auto& [tensor, shard] : weight_map->items()) {
    const auto* name = shard.get_ptr<const std::string*>();
    if (name == nullptr || !IsPlainFileName(*name) || !name->ends_with(ending)) {
      fields.Fail(absl::StrCat("weight_map names '", name == nullptr ? "" : name->substr(0, 64), "' for tensor '",
                               tensor.substr(0, 64), "'; a shard is a plain file name ending in ", ending));
      return fields.status();
    }
    names.insert(*name);
  }
  if (names.size() > kMaxShards) return TooManyShards(names.size());
  return Names(names.begin(), names.end());
}

// The shard count of "...-00001-of-00005.safetensors".
std::optional<uint32_t> ShardCount(std::string_view name) {
  const size_t marker = name.rfind("-of-");
  if (marker == std::string_view::npos) return std::nullopt;
  const std::string_view digits = name.substr(marker + 4, name.rfind('.') - marker - 4);
  uint32_t count = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), count);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return count;
}

absl::StatusOr<Names> ListUnindexedShards(const Directory& directory) {
  absl::StatusOr<Names> names = directory.List(".safetensors", kMaxShards);
  if (!names.ok() || names->empty()) return names;
  const std::optional<uint32_t> count = ShardCount(names->front());
  if (!count.has_value()) return names;
  if (*count > kMaxShards) return TooManyShards(*count);
  const std::string stem = names->front().substr(0, names->front().rfind("-of-") + 1);
  const size_t number_at = stem.rfind('-', stem.size() - 2);
  if (number_at == std::string::npos) return names;
  for (uint32_t shard = 1; shard <= *count; ++shard) {
    const std::string name = absl::StrFormat("%s-%05d-of-%05d.safetensors", stem.substr(0, number_at), shard, *count);
    if (!directory.Has(name)) return absl::NotFoundError(absl::StrCat(name, ": a shard of the checkpoint is missing"));
  }
  return names;
}

}  // namespace

absl::StatusOr<Names> ListShards(const Directory& directory) {
  if (directory.Has(kSingleFile)) return Names{kSingleFile};
  if (directory.Has(kIndexFile)) return ListIndexedShards(directory, kIndexFile, kSafetensorsEnding);
  absl::StatusOr<Names> names = ListUnindexedShards(directory);
  if (!names.ok() || !names->empty()) return names;
  if (directory.Has(kTorchFile)) return Names{kTorchFile};
  if (directory.Has(kTorchIndexFile)) return ListIndexedShards(directory, kTorchIndexFile, kTorchEnding);
  if (directory.Has(kNanoGptFile)) return Names{kNanoGptFile};
  return absl::NotFoundError("no *.safetensors file, pytorch_model.bin or ckpt.pt");
}

}  // namespace dunlin::engine
