// SPDX-License-Identifier: Apache-2.0
#include "server/config/model_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "server/config/key_table.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr size_t kMaxEntries = 4096;  // of one folder; further ones are not looked at

std::vector<fs::path> EntriesOf(const fs::path& folder) {
  std::error_code error;
  std::vector<fs::path> entries;
  const fs::directory_iterator end;
  for (fs::directory_iterator it(folder, error); !error && it != end && entries.size() < kMaxEntries;
       it.increment(error)) {
    entries.push_back(it->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

std::optional<uint64_t> VersionOf(const fs::path& folder) {
  uint64_t version = 0;
  const std::string name = folder.filename().string();
  if (!absl::SimpleAtoi(name, &version) || absl::StrCat(version) != name) return std::nullopt;
  return version;
}

// The folders of versions, the largest number first.
std::vector<fs::path> VersionsOf(const fs::path& model) {
  std::vector<std::pair<uint64_t, fs::path>> versions;
  for (const fs::path& entry : EntriesOf(model)) {
    std::error_code error;
    const std::optional<uint64_t> version = VersionOf(entry);
    if (version.has_value() && fs::is_directory(entry, error)) versions.emplace_back(*version, entry);
  }
  std::sort(versions.rbegin(), versions.rend());
  std::vector<fs::path> folders;
  folders.reserve(versions.size());
  for (auto& [number, folder] : versions) folders.push_back(std::move(folder));
  return folders;
}

// What a version's files were when they were looked at.
struct VersionFiles {
  std::string stamp;
  absl::Time changed = absl::InfinitePast();  // the last change of any of them, or of a folder
};

// A name and what it links to. Gone files are left out: their folder has changed.
void Look(const fs::path& path, VersionFiles* files) {
  for (const bool follow : {false, true}) {
    struct stat facts = {};
    if ((follow ? stat(path.c_str(), &facts) : lstat(path.c_str(), &facts)) != 0) return;
    const absl::Time changed = absl::TimeFromTimespec(facts.st_ctim);
    files->changed = std::max(files->changed, changed);
    absl::StrAppend(&files->stamp, path.string(), " ", facts.st_size, " ", absl::ToUnixNanos(changed), "\n");
  }
}

VersionFiles FilesOf(const fs::path& version) {
  VersionFiles files;
  Look(version, &files);
  for (const fs::path& entry : EntriesOf(version)) {
    Look(entry, &files);
    std::error_code error;
    if (!fs::is_directory(entry, error)) continue;
    for (const fs::path& nested : EntriesOf(entry)) Look(nested, &files);  // 1_Pooling/config.json
  }
  return files;
}

// A version's directory, or its one GGUF file.
std::string SourceOf(const fs::path& version) {
  std::vector<fs::path> files;
  for (const fs::path& entry : EntriesOf(version)) {
    if (entry.extension() == ".gguf") files.push_back(entry);
  }
  return files.size() == 1 ? files.front().string() : version.string();
}

FoundModel Found(const fs::path& model, const fs::path& version, const VersionFiles& files) {
  FoundModel found{model.filename().string(), SourceOf(version), ""};
  found.stamp = absl::StrCat(found.path, "\n", files.stamp);
  return found;
}

// Whether the config, which is JSON, can have this path; else it is left out.
bool IsTaken(const std::string& path, std::vector<std::string>* left_out) {
  if (text::IsValidUtf8(path)) return true;
  left_out->push_back(path);
  return false;
}

std::optional<FoundModel> ChooseVersion(const fs::path& model, absl::Time settled_before, const ModelPaths* served,
                                        std::vector<std::string>* left_out) {
  if (!IsTaken(model.string(), left_out)) return std::nullopt;
  std::vector<fs::path> versions = VersionsOf(model);
  std::erase_if(versions, [left_out](const fs::path& version) { return !IsTaken(SourceOf(version), left_out); });
  for (const fs::path& version : versions) {
    const VersionFiles files = FilesOf(version);
    if (files.changed < settled_before) return Found(model, version, files);
  }
  for (const fs::path& version : versions) {
    FoundModel found = Found(model, version, FilesOf(version));
    if (served == nullptr) return found;
    const auto of_model = served->find(found.name);
    if (of_model != served->end() && of_model->second == found.path) return found;
  }
  return std::nullopt;
}

Json* MemberNamed(const std::string& name, Json* models) {
  for (Json& model : *models) {
    if (model.is_object() && model.contains("name") && model["name"] == name) return &model;
  }
  return nullptr;
}

// model_repository.settle_s, before the document was checked.
absl::Duration SettleOf(const Json& document) {
  constexpr std::string_view kPath = "model_repository.settle_s";
  const Json::json_pointer pointer("/model_repository/settle_s");
  if (document.contains(pointer) && document[pointer].is_number_integer()) {
    return absl::Seconds(document[pointer].get<int64_t>());
  }
  const ConfigKeyTable keys = ConfigKeys();
  const auto* row = std::find_if(keys.begin(), keys.end(), [&](const ConfigKey& key) { return key.path == kPath; });
  return absl::Seconds(Json::parse(row->default_json).get<int64_t>());
}

}  // namespace

absl::StatusOr<FoundModels> FindModels(const std::string& repository, absl::Duration settle, absl::Time now,
                                       const ModelPaths* served) {
  std::error_code error;
  if (!fs::is_directory(repository, error)) return absl::NotFoundError(absl::StrCat(repository, " is no folder"));
  FoundModels found;
  for (const fs::path& model : EntriesOf(repository)) {
    if (model.filename().string().starts_with('.') || !fs::is_directory(model, error)) continue;
    std::optional<FoundModel> version = ChooseVersion(model, now - settle, served, &found.left_out);
    if (version.has_value()) found.models.push_back(*std::move(version));
  }
  return found;
}

std::string StampOf(const absl::StatusOr<FoundModels>& found) {
  std::string stamp;
  if (!found.ok()) return stamp;
  for (const FoundModel& model : found->models) absl::StrAppend(&stamp, model.stamp, "\n");
  for (const std::string& path : found->left_out) absl::StrAppend(&stamp, path, "\n");
  return stamp;
}

absl::StatusOr<std::vector<std::string>> AddRepositoryModels(const ModelPaths* served, Json* document) {
  std::vector<std::string> left_out;
  const Json::json_pointer key("/model_repository/path");
  if (!document->is_object() || !document->contains(key) || !(*document)[key].is_string()) return left_out;
  const auto repository = (*document)[key].get<std::string>();
  if (repository.empty() || !text::IsValidUtf8(repository)) return left_out;  // CheckAndComplete refuses the latter
  auto found = FindModels(repository, SettleOf(*document), absl::Now(), served);
  if (!found.ok() || found->models.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("model_repository.path is \"", repository,
                                                   "\"; limit is a folder with one folder of each model, which has "
                                                   "folders of its versions: MODEL/1, MODEL/2"));
  }
  Json& models = (*document)["models"];
  if (models.is_null()) models = Json::array();
  if (!models.is_array()) return left_out;  // CheckAndComplete refuses it
  for (const FoundModel& model : found->models) {
    Json* member = MemberNamed(model.name, &models);
    if (member == nullptr) {
      models.push_back({{"name", model.name}, {"path", model.path}});
    } else if (!member->contains("path") && !member->contains("weights")) {
      (*member)["path"] = model.path;
    }
  }
  return std::move(found->left_out);
}

}  // namespace dunlin::server
