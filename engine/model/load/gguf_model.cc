// SPDX-License-Identifier: Apache-2.0
#include "engine/model/load/gguf_model.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/checkpoint/gguf/gguf_config.h"
#include "engine/model/checkpoint/gguf/gguf_factors.h"
#include "engine/model/checkpoint/gguf/gguf_form.h"
#include "engine/model/checkpoint/gguf/gguf_vocabulary.h"

namespace dunlin::engine {
namespace {

constexpr const char* kVocabularyName = "vocabulary.json";  // kVocabularyFile of text/tokenizer.h

absl::StatusOr<Directory> OpenFolderOf(const std::string& path) {
  const std::filesystem::path file(path);
  return Directory::Open(file.has_parent_path() ? file.parent_path().string() : ".");
}

absl::StatusOr<GgufFile> OpenFirst(const Directory& directory, const std::string& path) {
  return GgufFile::Open(directory, std::filesystem::path(path).filename().string());
}

// The factors divide the frequencies, one by one: Llama 3's scaling, computed by the writer of the file. Of rotations
// of several widths the file has as many as the widest takes, and the first, that of full layers, is scaled.
absl::Status ApplyRotaryFactors(const GgufTensors& tensors, ModelConfig* config) {
  if (tensors.Find(kGgufRotaryFactors) == nullptr || config->rotary.inv_freq.empty()) return absl::OkStatus();
  RotarySpec& rotary = config->rotary;
  const bool one_width = rotary.dims.empty();
  const auto stored = one_width ? rotary.inv_freq.size() : static_cast<size_t>(rotary.dim) / 2;
  const auto factors = ReadGgufFactors(tensors, kGgufRotaryFactors, stored);
  if (!factors.ok()) return factors.status();
  const size_t scaled = one_width ? stored : static_cast<size_t>(rotary.dim_of(0)) / 2;
  for (size_t i = 0; i < scaled; ++i) rotary.inv_freq[i] /= (*factors)[i];
  return absl::OkStatus();
}

// Biases of the attention and of dense MLPs are where the file has them.
void SetBiases(const GgufTensors& tensors, ModelConfig* config) {
  const auto has = [&tensors](const char* name) { return tensors.Find(name) != nullptr; };
  config->attention.qkv_bias =
      has("blk.0.attn_q.bias") || has("blk.0.attn_qkv.bias") || has("blk.0.attn_kv_a_mqa.bias");
  config->attention.out_bias = has("blk.0.attn_output.bias");
  config->mlp.bias = has("blk.0.ffn_up.bias");
}

// Q and K rotate halves of a head, as transformers' checkpoints have them, or neighbouring dimensions.
void SeparateRotation(const ModelConfig& config, GgufTensors* tensors) {
  const int64_t rotated_rows =
      int64_t{config.attention.num_heads + config.attention.num_kv_heads} * config.attention.head_dim;
  tensors->SeparateRotationHalves({config.attention.head_dim, config.rotary.dim, rotated_rows});
}

// The files by which sentence-transformers names an encoder's pooling; none where the file does not name one.
absl::Status AddPooling(const GgufTensors& tensors, const std::string& architecture,
                        std::map<std::string, std::string, std::less<>>* texts) {
  constexpr const char* kNames[] = {nullptr, "mean", "cls", "lasttoken"};
  GgufFields fields(tensors.first());
  const std::string key = absl::StrCat(architecture, ".pooling_type");
  const std::optional<int64_t> type = fields.Int(key, 0, 3);
  if (!fields.status().ok() || type.value_or(0) == 0) return fields.status();
  (*texts)["modules.json"] = R"([{"type": "Transformer"}, {"type": "Pooling", "path": "1_Pooling"}])";
  (*texts)["1_Pooling/config.json"] = absl::StrCat(R"({"pooling_mode": ")", kNames[*type], R"("})");
  return absl::OkStatus();
}

absl::StatusOr<GgufConfigTexts> WriteConfig(const GgufArchitecture& found, const GgufTensors& tensors) {
  return WriteGgufConfig(*found.form, found.architecture->model_types.front(), tensors);
}

}  // namespace

bool IsGgufPath(const std::string& path) {
  std::error_code error;
  return path.ends_with(".gguf") || std::filesystem::is_regular_file(path, error);
}

absl::StatusOr<std::unique_ptr<GgufTensors>> OpenGguf(const std::string& path) {
  const absl::StatusOr<Directory> directory = OpenFolderOf(path);
  if (!directory.ok()) return directory.status();
  absl::StatusOr<GgufFile> first = OpenFirst(*directory, path);
  if (!first.ok()) return first.status();
  return GgufTensors::Open(*directory, *std::move(first));
}

absl::StatusOr<size_t> EstimateGgufText(const std::string& path) {
  const absl::StatusOr<Directory> directory = OpenFolderOf(path);
  if (!directory.ok()) return directory.status();
  const absl::StatusOr<GgufFile> first = OpenFirst(*directory, path);
  if (!first.ok()) return first.status();
  return EstimateGgufVocabulary(first->header());
}

absl::StatusOr<ParsedModel> ParseGgufModel(GgufTensors* tensors) {
  const absl::StatusOr<GgufArchitecture> found = SelectGgufArchitecture(*tensors);
  if (!found.ok()) return found.status();
  const absl::StatusOr<GgufConfigTexts> texts = WriteConfig(*found, *tensors);
  if (!texts.ok()) return texts.status();
  absl::StatusOr<ParsedModel> parsed = ParseModelConfig(texts->config, texts->generation);
  if (!parsed.ok()) return parsed;
  const GgufForm& form = *found->form;
  parsed->names = NamesOf(form);
  if (form.offset_norms) parsed->config.norm.weight_offset = 0.0F;
  parsed->config.delta.log_rates = parsed->config.mamba.log_rates = false;
  parsed->config.delta.shape.tiled_values = form.tiled_values;
  if (!form.fixed_biases) SetBiases(*tensors, &parsed->config);
  // By the order of the rows, but those of latent attention are as a directory has them.
  parsed->config.rotary.interleaved = parsed->config.attention.is_latent() && parsed->config.rotary.dim > 0;
  parsed->gguf = true;
  parsed->separates_rotation = form.interleaved_rotation && parsed->config.rotary.dim > 0;
  if (parsed->separates_rotation) SeparateRotation(parsed->config, tensors);
  if (form.factors_in_config) return parsed;
  if (absl::Status status = ApplyRotaryFactors(*tensors, &parsed->config); !status.ok()) return status;
  return parsed;
}

absl::StatusOr<std::unique_ptr<TextFiles>> ReadGgufTexts(const GgufTensors& tensors) {
  const absl::StatusOr<GgufArchitecture> found = SelectGgufArchitecture(tensors);
  if (!found.ok()) return found.status();
  absl::StatusOr<GgufConfigTexts> config = WriteConfig(*found, tensors);
  if (!config.ok()) return config.status();
  absl::StatusOr<GgufTokenizerTexts> tokenizer = WriteGgufTokenizer(tensors.first());
  if (!tokenizer.ok()) return tokenizer.status();
  std::map<std::string, std::string, std::less<>> texts;
  texts["config.json"] = std::move(config->config);
  texts["tokenizer_config.json"] = std::move(tokenizer->config);
  if (!config->generation.empty()) texts["generation_config.json"] = std::move(config->generation);
  if (!tokenizer->vocabulary.empty()) texts[kVocabularyName] = std::move(tokenizer->vocabulary);
  if (absl::Status status = AddPooling(tensors, found->form->name, &texts); !status.ok()) return status;
  return std::make_unique<MemoryFiles>(std::move(texts));
}

absl::StatusOr<std::unique_ptr<TextFiles>> OpenModelFiles(const std::string& path) {
  if (IsGgufPath(path)) {
    const absl::StatusOr<std::unique_ptr<GgufTensors>> tensors = OpenGguf(path);
    if (!tensors.ok()) return tensors.status();
    return ReadGgufTexts(**tensors);
  }
  absl::StatusOr<Directory> directory = Directory::Open(path);
  if (!directory.ok()) return directory.status();
  return std::make_unique<Directory>(*std::move(directory));
}

}  // namespace dunlin::engine
