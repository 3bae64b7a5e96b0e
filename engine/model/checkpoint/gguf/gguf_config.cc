// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/gguf/gguf_architecture.h"
#include "engine/model/model_limits.h"
#include "engine/types.h"

namespace dunlin::engine {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxNumber = INT64_MAX / 2;
constexpr uint64_t kMaxWordBytes = 64;
constexpr uint64_t kMaxTokenBytes = uint64_t{64} << 20;  // of all tokens

// The number that a config.json had before it was rounded to FP32: 1e-12, not 9.99999996e-13.
double ShortestDecimal(float value) {
  std::array<char, 32> text;
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double number = 0.0;
  std::from_chars(text.data(), end, number);
  return number;
}

// Writes the config.json of one file. Ranges are checked by the parser of config.json.
class ConfigWriter {
 public:
  ConfigWriter(const GgufArchitecture& architecture, const GgufTensors& tensors)
      : architecture_(architecture), tensors_(tensors), fields_(tensors.first()) {}

  absl::StatusOr<Json> Write() {
    json_["model_type"] = architecture_.model_type;
    for (const GgufFieldName& name : architecture_.fields) {
      if (const std::optional<Json> value = Value(Key(name.key))) json_[name.field] = *value;
    }
    WriteVocabulary();
    WriteHeads();
    WriteRotation();
    WriteOwnFields();
    if (fields_.Int(Key("expert_count"), 0, kMaxNumber).value_or(0) > 0) {
      fields_.Fail(Key("expert_count"), "is above 0: mixtures of experts are not supported");
    }
    if (!fields_.status().ok()) return fields_.status();
    return json_;
  }

 private:
  std::string Key(const char* suffix) const { return absl::StrCat(architecture_.name, ".", suffix); }
  bool Is(std::string_view name) const { return name == architecture_.name; }

  // A number as config.json writes it: an integer where the file has one.
  std::optional<Json> Value(const std::string& key) {
    if (!fields_.Has(key)) return std::nullopt;
    const auto& value = tensors_.first().header().metadata.find(key)->second;
    const bool is_float = value.type == GgufType::kF32 || value.type == GgufType::kF64;
    if (!is_float) return fields_.Int(key, 0, kMaxNumber).value_or(0);
    const double number = fields_.Number(key).value_or(0.0);
    return value.type == GgufType::kF64 ? number : ShortestDecimal(static_cast<float>(number));
  }

  void Copy(const char* suffix, const char* field) {
    if (const std::optional<Json> value = Value(Key(suffix))) json_[field] = *value;
  }

  void WriteVocabulary() {
    const TensorInfo* embedding = tensors_.Find(kGgufEmbedding);
    if (embedding != nullptr && !embedding->shape.empty()) json_["vocab_size"] = embedding->shape.front();
    json_["tie_word_embeddings"] = tensors_.Find(kGgufHead) == nullptr && !Is("phi2");
  }

  void WriteHeads() {
    const std::string count_key = Key("attention.head_count");
    const int64_t num_heads = fields_.Int(count_key, 1, kMaxHeads).value_or(0);
    const int64_t hidden = fields_.Int(Key("embedding_length"), 1, kMaxHiddenDim).value_or(0);
    if (num_heads == 0 || hidden == 0) {
      fields_.Fail(num_heads == 0 ? count_key : Key("embedding_length"), "is missing");
      return;
    }
    Copy("attention.head_count_kv", "num_key_value_heads");
    const std::string key = Key("attention.key_length");
    head_dim_ = fields_.Int(key, 1, kMaxHeadDim).value_or(hidden / num_heads);
    const int64_t value_dim = fields_.Int(Key("attention.value_length"), 1, kMaxHeadDim).value_or(head_dim_);
    if (value_dim != head_dim_) {
      fields_.Fail(key, absl::StrCat("is ", head_dim_, " and attention.value_length ", value_dim,
                                     "; heads of different sizes are not supported"));
    }
    if (Is("gpt2") || Is("gptneox") || Is("bert")) return;  // their configs have no head_dim: it follows
    json_["head_dim"] = head_dim_;
  }

  void WriteRotation() {
    const int64_t rotated = fields_.Int(Key("rope.dimension_count"), 1, kMaxHeadDim).value_or(head_dim_);
    if (architecture_.partial_rotary_field != nullptr) {
      // The parser truncates the product with head_dim; a quarter more keeps it from rounding below the integer.
      const double part =
          (static_cast<double>(rotated) + (rotated < head_dim_ ? 0.25 : 0.0)) / static_cast<double>(head_dim_);
      json_[architecture_.partial_rotary_field] = part;
    } else if (rotated != head_dim_) {
      fields_.Fail(Key("rope.dimension_count"),
                   absl::StrCat("is ", rotated, " of ", head_dim_, "; a part of a head is not supported here"));
    }
    const std::string type_key = Key("rope.scaling.type");
    const std::string type = fields_.Text(type_key, kMaxWordBytes);
    if (type.empty() || type == "none") return;
    if (type != "linear" && type != "yarn") {  // longrope's factors would be tensors here
      fields_.Fail(type_key, absl::StrCat("is '", type, "'; must be none, linear or yarn"));
      return;
    }
    Json scaling = {{"rope_type", type}};
    const auto copy = [&](const char* suffix, const char* field) {
      if (const std::optional<Json> value = Value(Key(suffix))) scaling[field] = *value;
    };
    copy("rope.scaling.factor", "factor");
    copy("rope.scaling.original_context_length", "original_max_position_embeddings");
    copy("rope.scaling.yarn_beta_fast", "beta_fast");
    copy("rope.scaling.yarn_beta_slow", "beta_slow");
    if (fields_.Number(Key("rope.scaling.attn_factor")).value_or(1.0) != 1.0) {
      fields_.Fail(Key("rope.scaling.attn_factor"), "is not 1, which is not supported");
    }
    json_["rope_scaling"] = scaling;
  }

  // Gemma 2 divides queries by the root of this. Without the key, of the published sizes only 27B, with 46 layers, has
  // another number than a head's size. Source: llama.cpp, src/models/gemma2.cpp.
  double QueryScalar() {
    const double scale = fields_.Number(Key("attention.scale")).value_or(0.0);
    if (scale > 0.0) return 1.0 / (scale * scale);
    const int64_t num_heads = json_.value("num_attention_heads", int64_t{1});
    const bool is_27b = json_.value("num_hidden_layers", 0) == 46 && num_heads > 0;
    return static_cast<double>(is_27b ? json_.value("hidden_size", int64_t{0}) / num_heads : head_dim_);
  }

  // What single architectures have beside the common fields.
  void WriteOwnFields() {
    if (Is("llama")) {
      const bool has_bias = tensors_.Find("blk.0.attn_q.bias") != nullptr;
      json_["attention_bias"] = has_bias;
      // Files of Mistral's first release name no architecture of their own.
      if (fields_.Int(Key("attention.sliding_window"), 0, kMaxContextTokens).value_or(0) > 0) {
        json_["model_type"] = "mistral";
        Copy("attention.sliding_window", "sliding_window");
      }
    }
    if (Is("gemma2")) {
      Copy("attention.sliding_window", "sliding_window");
      Copy("attn_logit_softcapping", "attn_logit_softcapping");
      Copy("final_logit_softcapping", "final_logit_softcapping");
      json_["query_pre_attn_scalar"] = QueryScalar();
    }
    if (Is("gptneox")) json_["use_parallel_residual"] = fields_.Bool(Key("use_parallel_residual")).value_or(true);
    if (Is("bert")) {
      const TensorInfo* types = tensors_.Find("token_types.weight");
      if (types != nullptr && !types->shape.empty()) json_["type_vocab_size"] = types->shape.front();
      if (fields_.Bool(Key("attention.causal")).value_or(false)) {
        fields_.Fail(Key("attention.causal"), "is true, which is not supported");
      }
    }
  }

  const GgufArchitecture& architecture_;
  const GgufTensors& tensors_;
  GgufFields fields_;
  Json json_;
  int64_t head_dim_ = 1;
};

// Tokens that end a turn. Files of chat models often name the token that ends a text as their only EOS.
constexpr const char* kTurnEnds[] = {"<|eot_id|>",    "<|eom_id|>",    "<|im_end|>",      "<|end|>",
                                     "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "<EOT>"};
constexpr double kNormalToken = 1.0;  // tokenizer.ggml.token_type

void AddTurnEnds(GgufFields& fields, std::set<int64_t>* ids) {
  const std::vector<std::string> tokens =
      fields.Texts("tokenizer.ggml.tokens", static_cast<uint64_t>(kMaxVocabSize), kMaxTokenBytes);
  const std::vector<double> types = fields.Numbers("tokenizer.ggml.token_type", static_cast<uint64_t>(kMaxVocabSize));
  for (size_t i = 0; i < std::min(tokens.size(), types.size()); ++i) {
    const auto is_end = [&](const char* end) { return tokens[i] == end; };
    if (types[i] != kNormalToken && std::any_of(std::begin(kTurnEnds), std::end(kTurnEnds), is_end)) {
      ids->insert(static_cast<int64_t>(i));
    }
  }
}

std::string GenerationText(GgufFields& fields) {
  std::set<int64_t> ids;
  for (const char* key :
       {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"}) {
    const std::optional<int64_t> id = fields.Int(key, 0, UINT32_MAX);
    if (id.has_value() && *id <= INT32_MAX) ids.insert(*id);  // some writers give 2^32 - 1 for none
  }
  if (fields.Has("tokenizer.chat_template")) AddTurnEnds(fields, &ids);
  return ids.empty() ? "" : Json{{"eos_token_id", ids}}.dump();
}

}  // namespace

absl::StatusOr<GgufConfigTexts> WriteGgufConfig(const GgufArchitecture& architecture, const GgufTensors& tensors) {
  const absl::StatusOr<Json> config = ConfigWriter(architecture, tensors).Write();
  if (!config.ok()) return config.status();
  GgufFields fields(tensors.first());
  GgufConfigTexts texts{.config = config->dump(), .generation = GenerationText(fields)};
  if (!fields.status().ok()) return fields.status();
  return texts;
}

}  // namespace dunlin::engine
