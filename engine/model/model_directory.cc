#include "engine/model/model_directory.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/json.h"
#include "engine/model/json_fields.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr const char* kConfigFile = "config.json";
constexpr const char* kGenerationFile = "generation_config.json";

// Ids at or above the vocabulary can never be generated: they are dropped with a warning (small test models keep the
// defaults of the large ones).
void ReadTokenIds(JsonFields& fields, ParsedModel* model) {
  const auto in_vocabulary = [&](const char* name, int64_t id) {
    if (id < model->config.vocab_size) return true;
    model->warnings.push_back(absl::StrCat(fields.where(), ": ", name, " ", id, " is ignored: the vocabulary has ",
                                           model->config.vocab_size, " tokens"));
    return false;
  };
  if (fields.Has("eos_token_id")) model->config.eos_token_ids.clear();
  for (const int64_t id : fields.IntListOr("eos_token_id", 0, INT32_MAX, kMaxEosTokens)) {
    if (in_vocabulary("eos_token_id", id)) model->config.eos_token_ids.push_back(static_cast<TokenId>(id));
  }
  if (!fields.Has("bos_token_id")) return;
  const int64_t bos = fields.Int("bos_token_id", 0, INT32_MAX);
  if (in_vocabulary("bos_token_id", bos)) model->config.bos_token_id = static_cast<TokenId>(bos);
}

}  // namespace

absl::StatusOr<ParsedModel> ParseModelConfig(std::string_view config_text, std::string_view generation_text) {
  const absl::StatusOr<nlohmann::json> object = ParseJsonObject(config_text, kConfigFile);
  if (!object.ok()) return object.status();
  JsonFields fields(*object, kConfigFile);
  const absl::StatusOr<const Architecture*> architecture = SelectArchitecture(fields);
  if (!architecture.ok()) return architecture.status();
  ParsedModel model;
  model.architecture = *architecture;
  model.config.architecture = (*architecture)->name;
  (*architecture)->parse_config(fields, &model.config);
  if (!fields.status().ok()) return fields.status();
  ReadTokenIds(fields, &model);
  if (!fields.status().ok()) return fields.status();

  if (generation_text.empty()) return model;
  const absl::StatusOr<nlohmann::json> generation = ParseJsonObject(generation_text, kGenerationFile);
  if (!generation.ok()) return generation.status();
  JsonFields generation_fields(*generation, kGenerationFile);
  ReadTokenIds(generation_fields, &model);
  if (!generation_fields.status().ok()) return generation_fields.status();
  return model;
}

absl::StatusOr<ParsedModel> ReadModelConfig(const Directory& directory) {
  const absl::StatusOr<std::string> config_text = directory.ReadFile(kConfigFile, kMaxConfigBytes);
  if (!config_text.ok()) return config_text.status();
  std::string generation_text;
  if (directory.Has(kGenerationFile)) {
    absl::StatusOr<std::string> text = directory.ReadFile(kGenerationFile, kMaxConfigBytes);
    if (!text.ok()) return text.status();
    generation_text = *std::move(text);
    if (generation_text.empty()) return absl::InvalidArgumentError(absl::StrCat(kGenerationFile, ": is empty"));
  }
  return ParseModelConfig(*config_text, generation_text);
}

}  // namespace dunlin::engine
