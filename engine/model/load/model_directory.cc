// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/model_directory.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";

// A file's text, "" when the file is absent. An empty file is an error.
absl::StatusOr<std::string> ReadOptional(const TextFiles& files, const char* name) {
  if (!files.Has(name)) return std::string();
  absl::StatusOr<std::string> text = files.ReadFile(name, kMaxConfigBytes);
  if (text.ok() && text->empty()) return absl::InvalidArgumentError(absl::StrCat(name, ": is empty"));
  return text;
}

// Ids outside the vocabulary can never be generated: they are dropped with a warning (small test models keep the ids of
// the large ones).
void ReadEosTokenIds(JsonFields& fields, ParsedModel* model) {
  if (fields.Has("eos_token_id")) model->config.eos_token_ids.clear();
  for (const int64_t id : fields.IntListOr("eos_token_id", 0, INT32_MAX, kMaxEosTokens)) {
    if (id < model->config.vocab_size) {
      model->config.eos_token_ids.push_back(static_cast<TokenId>(id));
      continue;
    }
    model->warnings.push_back(absl::StrCat(fields.where(), ": eos_token_id ", id, " is ignored: the vocabulary has ",
                                           model->config.vocab_size, " tokens"));
  }
}

}  // namespace

absl::StatusOr<ParsedModel> ParseModelConfig(std::string_view config_text, std::string_view generation_text,
                                             std::string_view hf_quant_text) {
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(config_text, kConfigFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kConfigFile);
  const absl::StatusOr<const Architecture*> architecture = SelectArchitecture(fields);
  if (!architecture.ok()) return architecture.status();
  ParsedModel model;
  model.names = (*architecture)->names;
  model.config.architecture = (*architecture)->name;
  (*architecture)->parse_config(fields, &model.config);
  if (!fields.status().ok()) return fields.status();
  ReadEosTokenIds(fields, &model);
  if (!fields.status().ok()) return fields.status();

  absl::StatusOr<Quantization> quantization = ParseQuantization(fields, hf_quant_text);
  if (!quantization.ok()) return quantization.status();
  model.quantization = *std::move(quantization);
  model.warnings.insert(model.warnings.end(), model.quantization.warnings.begin(), model.quantization.warnings.end());

  if (generation_text.empty()) return model;
  const absl::StatusOr<nlohmann::json> generation = ParsePythonJsonObject(generation_text, kGenerationFile);
  if (!generation.ok()) return generation.status();
  JsonFields generation_fields(*generation, kGenerationFile);
  ReadEosTokenIds(generation_fields, &model);
  if (!generation_fields.status().ok()) return generation_fields.status();
  return model;
}

absl::StatusOr<ParsedModel> ReadModelConfig(const TextFiles& files) {
  const absl::StatusOr<std::string> config_text = files.ReadFile(kConfigFile, kMaxConfigBytes);
  if (!config_text.ok()) return config_text.status();
  const absl::StatusOr<std::string> generation_text = ReadOptional(files, kGenerationFile);
  if (!generation_text.ok()) return generation_text.status();
  const absl::StatusOr<std::string> hf_quant_text = ReadOptional(files, kHfQuantFile);
  if (!hf_quant_text.ok()) return hf_quant_text.status();
  absl::StatusOr<ParsedModel> model = ParseModelConfig(*config_text, *generation_text, *hf_quant_text);
  // A decoder of sentence-transformers (Qwen 3 Embedding) gives vectors: its head, if it has one, is not used.
  if (model.ok() && files.Has(kPoolingModulesFile)) model->config.kind = ModelKind::kEncoder;
  return model;
}

}  // namespace dunlin::engine
