// SPDX-License-Identifier: Apache-2.0
#include "server/commands/serve_options.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "engine/model/load/gguf_model.h"
#include "server/config/key_table.h"
#include "server/config/validate.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;
namespace fs = std::filesystem;

// A variable holds one value, or the values of a list separated by ';'.
struct Variable {
  const char* name;
  const char* meaning;
  std::string ServeOptions::*value;  // or
  std::vector<std::string> ServeOptions::*values;
};
constexpr Variable kVariables[] = {
    {"DUNLIN_MODELS", "directories, when the command line has neither directory nor --config", nullptr,
     &ServeOptions::directories},
    {"DUNLIN_CONFIG", "--config, when there is no directory either", &ServeOptions::config, nullptr},
    {"DUNLIN_NAME", "--name", nullptr, &ServeOptions::names},
    {"DUNLIN_PRECISION", "--precision", nullptr, &ServeOptions::precisions},
    {"DUNLIN_GRPC", "--grpc", &ServeOptions::grpc, nullptr},
    {"DUNLIN_HTTP", "--http", &ServeOptions::http, nullptr},
    {"DUNLIN_BEHIND_PROXY", "--behind-proxy, if \"true\"", &ServeOptions::behind_proxy, nullptr},
    {"DUNLIN_SET", "--set", nullptr, &ServeOptions::overrides},
};

bool IsSource(const Variable& variable) {
  return variable.values == &ServeOptions::directories || variable.value == &ServeOptions::config;
}

// An empty variable counts as unset, so that one can be turned off where an image sets it.
void TakeEnvironment(ServeOptions* options) {
  for (const Variable& variable : kVariables) {
    const char* text = std::getenv(variable.name);
    if (text == nullptr || *text == '\0') continue;
    if (IsSource(variable) && !(options->directories.empty() && options->config.empty())) continue;
    if (variable.value != nullptr) {
      std::string& value = options->*variable.value;
      if (value.empty()) value = text;
    } else if (std::vector<std::string>& values = options->*variable.values; values.empty()) {
      values = absl::StrSplit(text, ';', absl::SkipEmpty());
    }
  }
}

std::string EnvironmentHelp() {
  std::string text = "Environment, for what the command line leaves out (lists separated by ';'):";
  for (const Variable& variable : kVariables) absl::StrAppend(&text, "\n  ", variable.name, ": ", variable.meaning);
  return text;
}

// What is wrong with the command line, or "".
std::string UsageError(const ServeOptions& options) {
  const size_t count = options.directories.size();
  if (count == 0 && options.config.empty()) return "nothing to serve: give a model directory, or --config FILE";
  if (count > 0 && !options.config.empty()) return "give model directories or --config FILE, not both";
  if (count == 0 && !options.names.empty()) return "--name is for model directories; a config names its models";
  if (count == 0 && !options.precisions.empty()) {
    return "--precision is for model directories; in a config it is models[].precisions";
  }
  if (!options.names.empty() && options.names.size() != count) {
    return absl::StrCat("--name is given ", options.names.size(), " times for ", count,
                        " directories; give it once for each, in their order");
  }
  if (options.precisions.size() > 1 && options.precisions.size() != count) {
    return absl::StrCat("--precision is given ", options.precisions.size(), " times for ", count,
                        " directories; give it once for all, or once for each, in their order");
  }
  return "";
}

// The first file of the directory with this extension, in the order of names; "" without one.
std::string FileWith(const fs::path& directory, std::string_view extension) {
  std::error_code error;
  std::string first;
  for (const fs::directory_entry& entry : fs::directory_iterator(directory, error)) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() == extension && (first.empty() || name < first)) first = name;
  }
  return first;
}

// Of a name of the Hub, which other servers download: "HuggingFaceTB/SmolLM2-135M".
std::string DownloadHint(const std::string& path) {
  const size_t slash = path.find('/');
  const bool is_name = slash != std::string::npos && slash > 0 && slash + 1 < path.size() && slash == path.rfind('/') &&
                       path[0] != '.' && path[0] != '~';
  std::error_code error;
  if (!is_name || fs::exists(path.substr(0, slash), error)) return "";
  return absl::StrCat("; nothing is downloaded: `hf download ", path, "` prints a directory that can be served");
}

// What a directory without a model has instead, "; ..." for the end of a message: a GGUF file, or snapshots of the
// Hub's cache.
std::string InsteadOfModel(const fs::path& path) {
  const std::string gguf = FileWith(path, ".gguf");
  if (!gguf.empty()) return absl::StrCat("; a GGUF file is served by its own path, ", (path / gguf).string());
  const std::string snapshot = FileWith(path / "snapshots", "");
  if (!snapshot.empty()) return absl::StrCat("; a snapshot is one, ", (path / "snapshots" / snapshot).string());
  return "";
}

absl::Status CheckModelDirectory(const fs::path& path) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    return absl::NotFoundError(absl::StrCat(path.string(), " does not exist", DownloadHint(path.string())));
  }
  if (fs::is_regular_file(path, error) && path.extension() == ".gguf") return absl::OkStatus();
  if (!fs::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(
        path.string(), " is not a directory; a model is one with config.json and *.safetensors, or a GGUF file"));
  }
  std::vector<std::string> missing;
  if (fs::exists(path / "ckpt.pt", error)) return absl::OkStatus();  // of nanoGPT: config and weights in one
  if (!fs::exists(path / "config.json", error)) missing.emplace_back("config.json");
  const bool pickled =
      fs::exists(path / "pytorch_model.bin", error) || fs::exists(path / "pytorch_model.bin.index.json", error);
  if (!pickled && FileWith(path, ".safetensors").empty()) missing.emplace_back("*.safetensors");
  if (missing.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), " is not a model directory: ", absl::StrJoin(missing, " and "),
                   missing.size() == 1 ? " is" : " are", " missing", InsteadOfModel(path)));
}

// "/models/llama/" -> "llama"; in the Hub's download cache, where the last component is a revision,
// "models--meta--llama/snapshots/1f2e" -> "llama"; "llama-q4_k_m.gguf" -> "llama-q4_k_m".
std::string NameOf(const fs::path& path) {
  fs::path normal = fs::absolute(path).lexically_normal();
  if (!normal.has_filename()) normal = normal.parent_path();
  const std::string repository = normal.parent_path().parent_path().filename().string();
  const bool snapshot = normal.parent_path().filename() == "snapshots" && repository.starts_with("models--");
  if (normal.extension() == ".gguf") return normal.stem().string();
  return snapshot ? repository.substr(repository.rfind("--") + 2) : normal.filename().string();
}

// The default of a key, so that the printed config shows the values that matter most to a newcomer.
Json DefaultOf(std::string_view path) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (path == key.path) return Json::parse(key.default_json);
  }
  return nullptr;
}

Json PrecisionsOf(const ServeOptions& options, size_t model) {
  // Of a GGUF file the server chooses when it has opened the device.
  if (options.precisions.empty()) {
    return engine::IsGgufPath(options.directories[model]) ? Json::array() : DefaultOf("models[].precisions");
  }
  const std::string& text = options.precisions[options.precisions.size() == 1 ? 0 : model];
  std::vector<std::string> names = absl::StrSplit(text, ',');
  for (std::string& name : names) name = absl::AsciiStrToLower(absl::StripAsciiWhitespace(name));
  return names;
}

absl::Status CheckNames(const ServeOptions& options, const Json& models) {
  for (size_t i = 0; i < models.size(); ++i) {
    for (size_t j = 0; j < i; ++j) {
      if (models[i]["name"] != models[j]["name"]) continue;
      return absl::InvalidArgumentError(absl::StrCat(options.directories[j], " and ", options.directories[i],
                                                     " would both be named \"", models[i]["name"].get<std::string>(),
                                                     "\"; give --name for each"));
    }
  }
  return absl::OkStatus();
}

std::vector<std::string> Overrides(const ServeOptions& options) {
  std::vector<std::string> overrides;
  if (!options.grpc.empty()) overrides.push_back(absl::StrCat("listen.grpc=", options.grpc));
  if (!options.http.empty()) overrides.push_back(absl::StrCat("listen.http=", options.http));
  if (!options.behind_proxy.empty()) overrides.push_back(absl::StrCat("access.behind_proxy=", options.behind_proxy));
  overrides.insert(overrides.end(), options.overrides.begin(), options.overrides.end());
  return overrides;
}

}  // namespace

void AddServeOptions(CLI::App* subcommand, ServeOptions* options) {
  subcommand->add_option("DIR", options->directories, "Model directories or .gguf files, instead of --config");
  subcommand->add_option("--config", options->config, "A config file (JSON, comments allowed)");
  subcommand
      ->add_option("--name", options->names,
                   "Name that requests use, by default the directory's; once for each directory, in their order")
      ->allow_extra_args(false);
  subcommand
      ->add_option("--precision", options->precisions,
                   "Precisions to keep in memory, the default of requests first: bf16,fp8; once for all directories, "
                   "or once for each")
      ->allow_extra_args(false);
  subcommand->add_option("--grpc", options->grpc, "Address of the gRPC port: 127.0.0.1:50051");
  subcommand->add_option("--http", options->http, "Address of the HTTP port: 127.0.0.1:8080");
  subcommand->add_flag_callback(
      "--behind-proxy", [options] { options->behind_proxy = "true"; },
      "Listen on addresses that other machines can reach without TLS: a proxy keeps strangers out");
  subcommand->add_option("--set", options->overrides, "Override one key: models.0.path=DIR; repeatable")
      ->allow_extra_args(false);
  subcommand->footer(absl::StrCat(subcommand->get_footer(), "\n", EnvironmentHelp()));
  subcommand->parse_complete_callback([options] {
    TakeEnvironment(options);
    if (const std::string error = UsageError(*options); !error.empty()) {
      throw CLI::ParseError(error, CLI::ExitCodes::ValidationError);
    }
  });
}

absl::StatusOr<std::string> ConfigTextOf(const ServeOptions& options) {
  Json document = {{"listen", {{"grpc", DefaultOf("listen.grpc")}, {"http", DefaultOf("listen.http")}}},
                   {"models", Json::array()}};
  for (size_t i = 0; i < options.directories.size(); ++i) {
    const std::string& directory = options.directories[i];
    if (absl::Status status = CheckModelDirectory(directory); !status.ok()) return status;
    document["models"].push_back({{"name", options.names.empty() ? NameOf(directory) : options.names[i]},
                                  {"path", fs::absolute(directory).lexically_normal().string()},
                                  {"precisions", PrecisionsOf(options, i)},
                                  {"kv_cache", {{"memory_bytes", DefaultOf("models[].kv_cache.memory_bytes")}}}});
  }
  if (absl::Status status = CheckNames(options, document["models"]); !status.ok()) return status;
  for (const std::string& assignment : Overrides(options)) {
    if (absl::Status status = ApplyOverride(assignment, &document); !status.ok()) return status;
  }
  Json checked = document;
  if (absl::Status status = CheckAndComplete(&checked); !status.ok()) return status;
  return document.dump(2);
}

absl::StatusOr<Config> LoadServeConfig(const ServeOptions& options) {
  if (options.directories.empty()) return LoadConfig(options.config, Overrides(options));
  const absl::StatusOr<std::string> text = ConfigTextOf(options);
  if (!text.ok()) return text.status();
  return LoadConfigText(*text, {});
}

}  // namespace dunlin::server
