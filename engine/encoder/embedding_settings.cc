// SPDX-License-Identifier: Apache-2.0
#include "engine/encoder/embedding_settings.h"

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/model/load/model_directory.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kModulesFile = kPoolingModulesFile;
constexpr const char* kSentenceFile = "sentence_bert_config.json";
constexpr const char* kConfigFile = "config.json";
constexpr const char* kPromptsFile = "config_sentence_transformers.json";
constexpr size_t kMaxNamedBytes = 64;
constexpr size_t kMaxPrompts = 64;

struct PoolingName {
  const char* flag;  // in configs with one boolean per pooling
  const char* name;  // in configs that name it
  Pooling pooling;
};
constexpr PoolingName kPoolingNames[] = {
    {"pooling_mode_mean_tokens", "mean", Pooling::kMean},
    {"pooling_mode_cls_token", "cls", Pooling::kCls},
    {"pooling_mode_lasttoken", "lasttoken", Pooling::kLast},
};
constexpr const char* kOtherFlags[] = {"pooling_mode_max_tokens", "pooling_mode_mean_sqrt_len_tokens",
                                       "pooling_mode_weightedmean_tokens"};

void ParsePooling(JsonFields& fields, EmbeddingSettings* settings) {
  int num_set = 0;
  const std::string named = fields.TextOr("pooling_mode", "");
  for (const PoolingName& row : kPoolingNames) {
    if (!fields.BoolOr(row.flag, false) && named != row.name) continue;
    settings->pooling = row.pooling;
    ++num_set;
  }
  for (const char* flag : kOtherFlags) {
    if (fields.BoolOr(flag, false)) fields.Fail(absl::StrCat(flag, " is true; known are mean, cls and last token"));
  }
  settings->pools_prompt = fields.BoolOr("include_prompt", true);
  if (num_set != 1)
    fields.Fail(absl::StrCat("names ", num_set, " of the poolings mean, cls and last token; limit is 1"));
}

absl::Status ReadPooling(const TextFiles& files, const std::string& folder, EmbeddingSettings* settings) {
  if (!IsPlainFileName(folder)) {
    return absl::InvalidArgumentError(absl::StrCat(kModulesFile, ": path is '", folder.substr(0, kMaxNamedBytes),
                                                   "'; it must be a plain folder name"));
  }
  const std::string name = absl::StrCat(folder, "/config.json");
  const absl::StatusOr<std::unique_ptr<TextFiles>> pooling = files.OpenFolder(folder);
  if (!pooling.ok()) return pooling.status();
  const absl::StatusOr<std::string> text = (*pooling)->ReadFile("config.json", kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(*text, name);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, name);
  ParsePooling(fields, settings);
  return fields.status();
}

// A module is identified by the last part of its Python name: "sentence_transformers.models.Pooling".
absl::Status ReadModule(const TextFiles& files, const nlohmann::json& module, EmbeddingSettings* settings) {
  if (!module.is_object()) return absl::InvalidArgumentError(absl::StrCat(kModulesFile, ": a module is no object"));
  JsonFields fields(module, kModulesFile);
  const std::string type = fields.TextOr("type", "");
  const std::string path = fields.TextOr("path", "");
  if (!fields.status().ok()) return fields.status();
  const std::string kind = type.substr(type.rfind('.') + 1);
  if (kind == "Transformer") return absl::OkStatus();
  if (kind == "Pooling") return ReadPooling(files, path, settings);
  if (kind == "Normalize") {
    settings->normalize = true;
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(kModulesFile, ": type is '", type.substr(0, kMaxNamedBytes),
                                                 "'; known are Transformer, Pooling and Normalize"));
}

absl::Status ReadModules(const TextFiles& files, EmbeddingSettings* settings) {
  const absl::StatusOr<std::string> text = files.ReadFile(kModulesFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  // The strict reader takes objects.
  const absl::StatusOr<nlohmann::json> file =
      ParsePythonJsonObject(absl::StrCat("{\"modules\":", *text, "}"), kModulesFile);
  if (!file.ok()) return file.status();
  const nlohmann::json& list = file->at("modules");
  if (!list.is_array()) return absl::InvalidArgumentError(absl::StrCat(kModulesFile, ": is not a list"));
  for (const nlohmann::json& module : list) {
    if (absl::Status status = ReadModule(files, module, settings); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ReadPrompts(const TextFiles& files, EmbeddingSettings* settings) {
  const absl::StatusOr<std::string> text = files.ReadFile(kPromptsFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(*text, kPromptsFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kPromptsFile);
  const nlohmann::json* prompts = fields.Object("prompts");
  settings->default_prompt = fields.TextOr("default_prompt_name", "");
  if (prompts != nullptr && prompts->size() > kMaxPrompts) {
    fields.Fail(absl::StrCat("prompts has ", prompts->size(), " entries; limit is ", kMaxPrompts));
  }
  if (!fields.status().ok()) return fields.status();
  const nlohmann::json none = nlohmann::json::object();
  for (const auto& [name, prompt] : (prompts == nullptr ? none : *prompts).items()) {
    if (!prompt.is_string()) fields.Fail(absl::StrCat("prompts.", name.substr(0, kMaxNamedBytes), " is not a text"));
    if (prompt.is_string()) settings->prompts[name] = prompt.get<std::string>();
  }
  if (!settings->default_prompt.empty() && !settings->prompts.contains(settings->default_prompt)) {
    fields.Fail(absl::StrCat("default_prompt_name is '", settings->default_prompt.substr(0, kMaxNamedBytes),
                             "', which prompts does not have"));
  }
  return fields.status();
}

// sentence-transformers 4 and 5 and, before, 2 and 3 have the name of a Python class.
absl::Status ReadScoreFunction(const TextFiles& files, EmbeddingSettings* settings) {
  const absl::StatusOr<std::string> text = files.ReadFile(kConfigFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(*text, kConfigFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kConfigFile);
  std::string name = fields.TextOr("sbert_ce_default_activation_function", "");
  if (const nlohmann::json* nested = fields.Object("sentence_transformers"); nested != nullptr) {
    JsonFields inner(*nested, absl::StrCat(kConfigFile, ": sentence_transformers"));
    name = inner.TextOr("activation_fn", name);
    fields.Adopt(inner.status());
  }
  const std::string kind = name.substr(name.rfind('.') + 1);
  settings->sigmoid_scores = kind != "Identity";
  if (!name.empty() && kind != "Identity" && kind != "Sigmoid") {
    fields.Fail(absl::StrCat("the activation of scores is '", name.substr(0, kMaxNamedBytes),
                             "'; known are Sigmoid and Identity"));
  }
  return fields.status();
}

absl::Status ReadMaxLength(const TextFiles& files, EmbeddingSettings* settings) {
  const absl::StatusOr<std::string> text = files.ReadFile(kSentenceFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(*text, kSentenceFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kSentenceFile);
  settings->max_input_tokens = static_cast<int32_t>(fields.IntOr("max_seq_length", 1, kMaxContextTokens, 0));
  return fields.status();
}

}  // namespace

absl::StatusOr<EmbeddingSettings> ReadEmbeddingSettings(const TextFiles& files, int32_t num_labels) {
  EmbeddingSettings settings;
  if (files.Has(kModulesFile)) {
    if (absl::Status status = ReadModules(files, &settings); !status.ok()) return status;
  }
  if (files.Has(kSentenceFile)) {
    if (absl::Status status = ReadMaxLength(files, &settings); !status.ok()) return status;
  }
  if (files.Has(kPromptsFile)) {
    if (absl::Status status = ReadPrompts(files, &settings); !status.ok()) return status;
  }
  const auto by_default = settings.prompts.find(settings.default_prompt);
  if (!settings.pools_prompt && by_default != settings.prompts.end() && !by_default->second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        kPromptsFile, ": default_prompt_name is set, but 1_Pooling/config.json leaves prompts out (include_prompt)"));
  }
  if (num_labels == 1 && files.Has(kConfigFile)) {
    if (absl::Status status = ReadScoreFunction(files, &settings); !status.ok()) return status;
  }
  return settings;
}

}  // namespace dunlin::engine
