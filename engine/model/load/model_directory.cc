// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/model_directory.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/base/json_fields.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/image_encoders.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";

// Where multimodal checkpoints have the text model: as transformers 5 writes it, as published before, and by itself.
constexpr const char* kTextPartPrefixes[] = {"model.language_model.", "language_model.model.", "model."};

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

// The text part of a multimodal config, whose text_config, or itself, is `text`. eos_token_id and tie_word_embeddings
// may stand in either; those of the config itself count, but where the architecture has the latter of the text's.
void ParseTextPart(const Architecture& architecture, JsonFields& text, JsonFields& fields, ParsedModel* model) {
  architecture.parse_config(text, &model->config);
  if (!fields.Has("eos_token_id")) ReadEosTokenIds(text, model);
  fields.Adopt(text.status());
  model->config.text_part = true;
  model->config.architecture = fields.TextOr("model_type", architecture.name);
  const bool tied = fields.BoolOr("tie_word_embeddings", model->config.head.tied);
  if (!architecture.text_ties_head) model->config.head.tied = tied;
  model->names.prefixes = kTextPartPrefixes;
}

bool HasQuantization(const JsonFields& fields) {
  return fields.Has("quantization_config") || fields.Has("compression_config");
}

}  // namespace

absl::StatusOr<ParsedModel> ParseModelConfig(std::string_view config_text, std::string_view generation_text,
                                             std::string_view hf_quant_text) {
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(config_text, kConfigFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kConfigFile);
  const absl::StatusOr<ConfigArchitecture> selected = SelectArchitecture(fields);
  if (!selected.ok()) return selected.status();
  const Architecture& architecture = *selected->architecture;
  const bool multimodal = selected->text_part;
  const bool nested = selected->text != nullptr;
  JsonFields text(nested ? *selected->text : *object, absl::StrCat(kConfigFile, nested ? ": text_config" : ""));
  ParsedModel model;
  model.names = architecture.names;
  model.config.architecture = architecture.name;
  if (multimodal) {
    ParseTextPart(architecture, text, fields, &model);
  } else {
    architecture.parse_config(fields, &model.config);
  }
  if (!fields.status().ok()) return fields.status();
  ReadEosTokenIds(fields, &model);
  if (!fields.status().ok()) return fields.status();

  JsonFields& quantized = multimodal && !HasQuantization(fields) ? text : fields;
  absl::StatusOr<Quantization> quantization = ParseQuantization(quantized, hf_quant_text);
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

absl::StatusOr<std::optional<ParsedModel>> ParseImageEncoderConfig(std::string_view config_text,
                                                                   std::string_view hf_quant_text) {
  const absl::StatusOr<nlohmann::json> object = ParsePythonJsonObject(config_text, kConfigFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kConfigFile);
  const ImageEncoderForm* form = FindImageEncoder(fields.TextOr("model_type", ""));
  const nlohmann::json* object_of_vision = form == nullptr ? nullptr : fields.Object("vision_config");
  if (!fields.status().ok()) return fields.status();
  if (object_of_vision == nullptr) return std::nullopt;
  absl::StatusOr<ParsedModel> text = ParseModelConfig(config_text, "", hf_quant_text);
  if (!text.ok()) return text.status();
  JsonFields vision(*object_of_vision, absl::StrCat(kConfigFile, ": vision_config"));
  ParsedModel model;
  model.names = form->names;
  model.quantization = std::move(text->quantization);
  model.config.architecture = form->name;
  model.config.kind = ModelKind::kEncoder;
  form->parse_config(vision, fields, text->config, &model.config);
  const std::string reason = form->why_not_served == nullptr ? "" : form->why_not_served(vision, fields);
  fields.Adopt(vision.status());
  if (!fields.status().ok()) return fields.status();
  if (!reason.empty()) return absl::FailedPreconditionError(absl::StrCat(vision.where(), ": ", reason));
  return model;
}

absl::StatusOr<std::optional<ParsedModel>> ReadImageEncoderConfig(const TextFiles& files) {
  if (!files.Has(kConfigFile)) return std::nullopt;
  const absl::StatusOr<std::string> config_text = files.ReadFile(kConfigFile, kMaxConfigBytes);
  if (!config_text.ok()) return config_text.status();
  const absl::StatusOr<std::string> hf_quant_text = ReadOptional(files, kHfQuantFile);
  if (!hf_quant_text.ok()) return hf_quant_text.status();
  return ParseImageEncoderConfig(*config_text, *hf_quant_text);
}

}  // namespace dunlin::engine
