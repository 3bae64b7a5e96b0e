// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/sampling_defaults.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/base/file.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/draw_params.h"

namespace dunlin::engine {
namespace {

using nlohmann::json;

constexpr const char* kFile = "generation_config.json";

// Fields that are read here, besides the numeric parameters, or, the end-of-sequence ids, by model_directory.cc.
constexpr std::string_view kRead[] = {"do_sample",     "max_new_tokens", "suppress_tokens", "begin_suppress_tokens",
                                      "bad_words_ids", "eos_token_id"};
// Fields that do not change which tokens come out: the prompt's form, the output's form, the computation.
constexpr std::string_view kWithoutEffect[] = {
    "transformers_version",    "_from_model_config", "bos_token_id",   "pad_token_id",      "use_cache",
    "return_dict_in_generate", "output_scores",      "output_logits",  "output_attentions", "output_hidden_states",
    "cache_implementation",    "cache_config",       "compile_config", "disable_compile",   "return_legacy_cache",
    "remove_invalid_values",   "renormalize_logits"};

bool IsOneOf(std::string_view name, const auto& names) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

bool IsDrawParam(std::string_view name) {
  return std::any_of(std::begin(kDrawParamTable), std::end(kDrawParamTable),
                     [name](const DrawParamTraits& row) { return row.config_low.has_value() && name == row.name(); });
}

// Values that leave a decoding option of transformers off: null, false, 0, 1, and nothing at all.
bool IsNeutral(const json& value) {
  if (value.is_null()) return true;
  if (value.is_boolean()) return !value.get<bool>();
  if (value.is_number()) return value.get<double>() == 0 || value.get<double>() == 1;
  return value.empty();
}

void NameUnsupported(const json& object, std::vector<std::string>* warnings) {
  for (const auto& [name, value] : object.items()) {
    if (IsDrawParam(name) || IsOneOf(name, kRead) || IsOneOf(name, kWithoutEffect) || IsNeutral(value)) continue;
    warnings->push_back(absl::StrCat(kFile, ": ", name, " is ignored: not supported"));
  }
}

std::vector<TokenId> TokenList(const char* name, int32_t vocab_size, JsonFields* fields,
                               std::vector<std::string>* warnings) {
  std::vector<TokenId> ids;
  for (const int64_t id : fields->IntListOr(name, INT32_MIN, INT32_MAX, kMaxSuppressedTokenIds)) {
    if (id >= 0 && id < vocab_size) {
      ids.push_back(static_cast<TokenId>(id));
    } else {
      warnings->push_back(
          absl::StrCat(kFile, ": ", name, " ", id, " is ignored: the vocabulary has ", vocab_size, " tokens"));
    }
  }
  return ids;
}

// One of bad_words_ids; empty where it contains an id outside the vocabulary, or is no list of 1 to kMaxBadWordTokens.
std::vector<TokenId> BadWord(const json& word, int32_t vocab_size) {
  if (!word.is_array() || word.size() > kMaxBadWordTokens) return {};
  std::vector<TokenId> ids;
  for (const json& id : word) {
    if (!id.is_number_integer() || id.get<int64_t>() < 0 || id.get<int64_t>() >= vocab_size) return {};
    ids.push_back(id.get<TokenId>());
  }
  return ids;
}

std::vector<std::vector<TokenId>> BadWords(const json& object, int32_t vocab_size, JsonFields* fields,
                                           std::vector<std::string>* warnings) {
  std::vector<std::vector<TokenId>> words;
  const auto found = object.find("bad_words_ids");
  if (found == object.end() || found->is_null()) return words;
  if (!found->is_array() || found->size() > kMaxBadWords) {
    fields->Fail(absl::StrCat("bad_words_ids must be a list of at most ", kMaxBadWords, " lists of token ids"));
    return words;
  }
  for (const json& word : *found) {
    words.push_back(BadWord(word, vocab_size));
    if (!words.back().empty()) continue;
    words.pop_back();
    warnings->push_back(absl::StrCat(kFile, ": an entry of bad_words_ids is ignored: it must have 1 to ",
                                     kMaxBadWordTokens, " ids in [0, ", vocab_size, ")"));
  }
  return words;
}

// REQUIRES: the file has such a field.
void ReadDrawParam(const DrawParamTraits& row, JsonFields* fields, kernels::DrawParams* params) {
  if (const auto* number = std::get_if<FloatParam>(&row.param)) {
    float& value = params->*number->value;
    value = static_cast<float>(fields->NumberOr(row.name(), *row.config_low, number->range.high, value));
  } else {
    const auto& integer = std::get<IntParam>(row.param);
    int32_t& value = params->*integer.value;
    value = static_cast<int32_t>(fields->IntOr(row.name(), integer.low, integer.high, value));
  }
}

}  // namespace

absl::StatusOr<GenerationDefaults> ParseGenerationDefaults(std::string_view text, int32_t vocab_size) {
  const absl::StatusOr<json> object = ParsePythonJsonObject(text, kFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kFile);
  GenerationDefaults defaults;
  SamplingParams& sampling = defaults.sampling;
  for (const DrawParamTraits& row : kDrawParamTable) {
    if (row.config_low.has_value()) ReadDrawParam(row, &fields, &sampling);
  }
  defaults.names_temperature = fields.Has("temperature");
  if (!fields.BoolOr("do_sample", true)) {
    sampling.temperature = 0.0F;
    defaults.names_temperature = true;
  }
  if (fields.Has("max_new_tokens")) {
    defaults.max_tokens = static_cast<int32_t>(fields.Int("max_new_tokens", 1, INT32_MAX));
  }
  std::vector<std::string>* warnings = &defaults.warnings;
  sampling.suppressed_token_ids = TokenList("suppress_tokens", vocab_size, &fields, warnings);
  sampling.begin_suppressed_token_ids = TokenList("begin_suppress_tokens", vocab_size, &fields, warnings);
  sampling.bad_words = BadWords(*object, vocab_size, &fields, warnings);
  if (!fields.status().ok()) return fields.status();
  NameUnsupported(*object, warnings);
  return defaults;
}

absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const TextFiles& files, int32_t vocab_size) {
  if (!files.Has(kFile)) return GenerationDefaults();
  const absl::StatusOr<std::string> text = files.ReadFile(kFile, kMaxConfigBytes);
  if (!text.ok()) return text.status();
  return ParseGenerationDefaults(*text, vocab_size);
}

}  // namespace dunlin::engine
