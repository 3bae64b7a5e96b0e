// SPDX-License-Identifier: Apache-2.0
#include "engine/adapters/adapter_config.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/base/string_view.h"
#include "engine/request/adapter_lease.h"

namespace dunlin::engine {
namespace {

constexpr const char* kFile = "adapter_config.json";
constexpr size_t kMaxTargets = 4096;
constexpr size_t kMaxPatterns = 4096;
constexpr std::string_view kAnyParent = R"(.*\.)";  // of a pattern that PEFT writes; last components mean the same
constexpr std::string_view kLastParameter = "down_proj";
constexpr std::string_view kExperts = ".experts";
constexpr std::string_view kExpressionCharacters = "*+?()[]{}|\\";  // a dot counts as itself

// Whether a path is the module's, or its last components.
bool Names(std::string_view path, std::string_view module) {
  if (!module.ends_with(path)) return false;
  return module.size() == path.size() || module[module.size() - path.size() - 1] == '.';
}

template <typename Value>
Value Look(const std::map<std::string, Value>& pattern, std::string_view module, Value fallback) {
  for (const auto& [path, value] : pattern) {
    if (Names(path, module)) return value;
  }
  return fallback;
}

// Fields that say that the adapter is more than pairs of matrices next to the base's own weights.
void RefuseFlags(JsonFields& fields) {
  for (const char* flag : {"use_dora", "lora_bias", "use_qalora"}) {
    if (fields.BoolOr(flag, false)) fields.Fail(absl::StrCat(flag, " is true; adapters with it are not served"));
  }
}

void RefuseLists(const nlohmann::json& object, JsonFields& fields) {
  for (const char* list :
       {"modules_to_save", "trainable_token_indices", "layer_replication", "use_bdlora", "alora_invocation_tokens",
        "arrow_config", "kasa_config", "monteclora_config", "velora_config"}) {
    const auto found = object.find(list);
    if (found == object.end() || found->is_null() || found->empty() || *found == false) continue;
    fields.Fail(absl::StrCat(list, " is given; adapters with it are not served"));
  }
}

void RefuseOthers(const nlohmann::json& object, JsonFields& fields) {
  if (!fields.IsText("peft_type", "LORA")) {
    fields.Fail(absl::StrCat("peft_type is '", fields.TextOr("peft_type", ""), "'; LORA is served"));
  }
  const std::string bias = fields.TextOr("bias", "none");
  if (bias != "none") fields.Fail(absl::StrCat("bias is '", bias, "'; adapters are served with none"));
  const auto init = object.find("init_lora_weights");
  if (init == object.end() || !init->is_string()) return;
  const auto name = init->get<std::string>();
  for (const char* changes : {"pissa", "olora", "corda", "loftq"}) {
    if (name.starts_with(changes)) {
      fields.Fail(
          absl::StrCat("init_lora_weights is '", name, "', which changes the base's weights; it is not served"));
    }
  }
}

template <typename Value, typename Read>
std::map<std::string, Value> ReadPattern(JsonFields& fields, const char* name, const Read& read) {
  std::map<std::string, Value> pattern;
  const nlohmann::json* object = fields.Object(name);
  if (object == nullptr) return pattern;
  if (object->size() > kMaxPatterns) {
    fields.Fail(absl::StrCat(name, " has ", object->size(), " entries; limit is ", kMaxPatterns));
    return pattern;
  }
  JsonFields entries(*object, absl::StrCat(fields.where(), ": ", name));
  for (const auto& [key, value] : object->items()) {
    std::string_view path = key;
    if (path.starts_with('^')) path.remove_prefix(1);
    if (path.starts_with(kAnyParent)) path.remove_prefix(kAnyParent.size());
    if (path.ends_with('$')) path.remove_suffix(1);
    if (path.empty() || path.find_first_of(kExpressionCharacters) != std::string_view::npos) {
      entries.Fail(absl::StrCat("'", key, "' is an expression; module paths and their last components are read"));
    }
    pattern.emplace(path, read(entries, key.c_str()));
  }
  fields.Adopt(entries.status());
  return pattern;
}

// A string is an expression or all-linear: the adapter's tensors say which modules it has.
std::vector<std::string> ReadTargets(const nlohmann::json& object, JsonFields& fields) {
  const auto found = object.find("target_modules");
  if (found == object.end() || found->is_null() || found->is_string()) return {};
  return fields.TextListOr("target_modules", kMaxTargets);
}

}  // namespace

int32_t AdapterConfig::RankOf(std::string_view module) const {
  return static_cast<int32_t>(Look<int64_t>(rank_pattern, module, rank));
}

double AdapterConfig::AlphaOf(std::string_view module) const {
  return Look(alpha_pattern, module, alpha);
}

bool AdapterConfig::Targets(std::string_view module) const {
  return target_modules.empty() || std::any_of(target_modules.begin(), target_modules.end(),
                                               [&](const std::string& path) { return Names(path, module); });
}

std::vector<std::string> AdapterConfig::ParametersOf(std::string_view module) const {
  std::vector<std::string> parameters;
  for (const std::string& target : target_parameters) {
    const size_t dot = target.rfind('.');
    if (dot == std::string::npos && !module.ends_with(kExperts)) continue;
    const std::string parameter = target.substr(dot + 1);
    const bool names = Names(target, absl::StrCat(AbslView(module), ".", parameter));
    if (names && !std::ranges::count(parameters, parameter)) parameters.push_back(parameter);
  }
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const std::string& name) { return name != kLastParameter; });
  return parameters;
}

absl::StatusOr<AdapterConfig> ParseAdapterConfig(std::string_view text) {
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(text, kFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kFile);
  RefuseOthers(*object, fields);
  RefuseFlags(fields);
  RefuseLists(*object, fields);
  AdapterConfig config;
  config.rank = static_cast<int32_t>(fields.Int("r", 1, kMaxAdapterRank));
  config.alpha = fields.Number("lora_alpha", -kMaxAdapterAlpha, kMaxAdapterAlpha);
  config.rank_stabilized = fields.BoolOr("use_rslora", false);
  (void)fields.BoolOr("fan_in_fan_out", false);  // of the base's own matrices: an adapter's are stored alike
  config.rank_pattern = ReadPattern<int64_t>(fields, "rank_pattern", [](JsonFields& entries, const char* key) {
    return entries.Int(key, 1, kMaxAdapterRank);
  });
  config.alpha_pattern = ReadPattern<double>(fields, "alpha_pattern", [](JsonFields& entries, const char* key) {
    return entries.Number(key, -kMaxAdapterAlpha, kMaxAdapterAlpha);
  });
  config.target_modules = ReadTargets(*object, fields);
  config.target_parameters = fields.TextListOr("target_parameters", kMaxTargets);
  if (!fields.status().ok()) return fields.status();
  return config;
}

}  // namespace dunlin::engine
