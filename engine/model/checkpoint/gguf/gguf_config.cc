// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/gguf/gguf_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/gguf/gguf_factors.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

using Json = GgufConfigWriter::Json;

constexpr int64_t kMaxNumber = INT64_MAX / 2;
constexpr uint64_t kMaxConfigWordBytes = 64;
constexpr uint64_t kMaxTokenBytes = uint64_t{64} << 20;  // of all tokens
constexpr const char* kPattern = "attention.sliding_window_pattern";
constexpr const char* kHeadCount = "attention.head_count";
constexpr double kDefaultTheta = 10000.0;

// The number that a config.json had before it was rounded to FP32: 1e-12, not 9.99999996e-13.
double ShortestDecimal(float value) {
  std::array<char, 32> text;
  const char* end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
  double number = 0.0;
  std::from_chars(text.data(), end, number);
  return number;
}

}  // namespace

absl::StatusOr<Json> GgufConfigWriter::Write() {
  json_["model_type"] = model_type_;
  all_layers_ = Required("block_count", 1, kMaxLayers);
  num_layers_ = all_layers_ - fields_.Int(Key("nextn_predict_layers"), 0, all_layers_ - 1).value_or(0);
  WriteFields();
  WriteVocabulary();
  WriteHeads();
  WriteRotation();
  WriteExperts();
  if (form_.write_fields != nullptr && fields_.status().ok()) form_.write_fields(this);
  if (!fields_.status().ok()) return fields_.status();
  return json_;
}

std::string GgufConfigWriter::Key(const char* suffix) const {
  return absl::StrCat(form_.name, ".", suffix);
}

// A number as config.json writes it: an integer where the file has one.
std::optional<Json> GgufConfigWriter::Value(const std::string& key) {
  if (!fields_.Has(key)) return std::nullopt;
  const auto& value = tensors_.first().header().metadata.find(key)->second;
  const bool is_float = value.type == GgufType::kF32 || value.type == GgufType::kF64;
  if (!is_float) return fields_.Int(key, 0, kMaxNumber).value_or(0);
  const double number = fields_.Number(key).value_or(0.0);
  return value.type == GgufType::kF64 ? number : ShortestDecimal(static_cast<float>(number));
}

void GgufConfigWriter::Copy(const char* suffix, const char* field) {
  if (const std::optional<Json> value = Value(Key(suffix))) json_[field] = *value;
}

void GgufConfigWriter::CopyOr(const char* suffix, const char* field, double fallback) {
  json_[field] = fallback;
  Copy(suffix, field);
}

void GgufConfigWriter::CopyFlag(const char* suffix, const char* field) {
  if (const std::optional<bool> flag = fields_.Bool(Key(suffix))) json_[field] = *flag;
}

int64_t GgufConfigWriter::Required(const char* suffix, int64_t min, int64_t max) {
  const std::optional<int64_t> value = fields_.Int(Key(suffix), min, max);
  if (!value.has_value()) fields_.Fail(Key(suffix), "is missing");  // after another error without effect
  return value.value_or(min);
}

void GgufConfigWriter::WriteFields() {
  for (const GgufFieldName& name : form_.fields) {
    const std::string_view key = name.key;
    if (key == "block_count") {
      json_[name.field] = num_layers_;
    } else if (key == kHeadCount && form_.layer_heads) {
      json_[name.field] = NumHeads();
    } else if (key == "rope.freq_base") {
      CopyOr(name.key, name.field, kDefaultTheta);
    } else {
      Copy(name.key, name.field);
    }
  }
}

int64_t GgufConfigWriter::RowsOf(const char* name) const {
  const TensorInfo* tensor = tensors_.Find(name);
  return tensor == nullptr || tensor->shape.empty() ? 0 : tensor->shape.front();
}

std::vector<float> GgufConfigWriter::Factors(const char* name, int64_t count, float limit) {
  const auto factors = ReadGgufFactors(tensors_, name, static_cast<size_t>(count), limit);
  if (factors.ok()) return *factors;
  fields_.Adopt(factors.status());
  return {};
}

std::vector<double> GgufConfigWriter::NumbersOfLayers(const char* suffix) {
  const std::string key = Key(suffix);
  const auto num_layers = static_cast<size_t>(num_layers_);
  if (!fields_.IsArray(key)) return std::vector<double>(num_layers, fields_.Number(key).value_or(0.0));
  std::vector<double> numbers = fields_.Numbers(key, static_cast<uint64_t>(kMaxLayers));
  if (numbers.size() != num_layers && numbers.size() != static_cast<size_t>(all_layers_)) {
    fields_.Fail(key, absl::StrCat("has ", numbers.size(), " elements; block_count is ", all_layers_));
  }
  numbers.resize(num_layers);
  return numbers;
}

std::vector<int64_t> GgufConfigWriter::OfLayers(const char* suffix, int64_t min, int64_t max) {
  const std::string key = Key(suffix);
  const auto num_layers = static_cast<size_t>(num_layers_);
  if (!fields_.IsArray(key)) return std::vector<int64_t>(num_layers, Required(suffix, min, max));
  const std::vector<double> numbers = NumbersOfLayers(suffix);
  std::vector<int64_t> of_layers(num_layers, min);
  for (size_t layer = 0; layer < num_layers; ++layer) {
    const double number = numbers[layer];
    if (number >= static_cast<double>(min) && number <= static_cast<double>(max)) {
      of_layers[layer] = static_cast<int64_t>(number);
    } else {
      fields_.Fail(key, absl::StrCat("is ", number, " in layer ", layer, "; limit is [", min, ", ", max, "]"));
    }
  }
  return of_layers;
}

void GgufConfigWriter::WriteVocabulary() {
  json_["vocab_size"] = RowsOf(kGgufEmbedding);
  json_["tie_word_embeddings"] = !form_.never_tied && !HasTensor(kGgufHead);
}

// A file has the sizes of the row that a page holds, and those of a head's key and value under names of their own.
// Where one tensor has the key and value matrices of the heads, files of older converters have a head's sizes alone.
void GgufConfigWriter::WriteLatentHeads() {
  const bool rows = HasTensor(kGgufHeadRows);
  const auto length = [&](const char* own, const char* usual) { return rows && !fields_.Has(Key(own)) ? usual : own; };
  const char* key_length = length("attention.key_length_mla", "attention.key_length");
  const int64_t key_dim = Required(key_length, 1, kMaxHeadDim);
  head_dim_ = Required("rope.dimension_count", 1, kMaxHeadDim);
  if (fields_.status().ok() && key_dim <= head_dim_) {
    fields_.Fail(Key(key_length), absl::StrCat("is ", key_dim, "; must be above rope.dimension_count ", head_dim_));
  }
  json_["kv_lora_rank"] = Required("attention.kv_lora_rank", 1, kMaxHeadDim);
  json_["q_lora_rank"] = nullptr;
  Copy("attention.q_lora_rank", "q_lora_rank");
  json_["qk_rope_head_dim"] = head_dim_;
  json_["qk_nope_head_dim"] = key_dim - head_dim_;
  json_["v_head_dim"] = Required(length("attention.value_length_mla", "attention.value_length"), 1, kMaxHeadDim);
}

// Of queries; the first layer's where each has a number.
int64_t GgufConfigWriter::NumHeads() {
  return form_.layer_heads ? OfLayers(kHeadCount, 1, kMaxHeads).front() : Required(kHeadCount, 1, kMaxHeads);
}

// Of hybrids the number stands for each layer, 0 where it does not attend.
int64_t GgufConfigWriter::KvHeadsOfLayers(const std::string& key) {
  const std::vector<double> heads = fields_.Numbers(key, static_cast<uint64_t>(kMaxLayers));
  if (heads.size() != static_cast<size_t>(all_layers_)) {
    fields_.Fail(key, absl::StrCat("has ", heads.size(), " elements; block_count is ", all_layers_));
  }
  double most = 0.0;
  for (const double count : heads) most = std::max(most, count);
  for (const double count : heads) {
    if (count == 0.0 || count == most) continue;
    fields_.Fail(key, absl::StrCat("has layers of ", count, " and of ", most, ", which is not supported"));
  }
  return static_cast<int64_t>(std::min(most, static_cast<double>(kMaxHeads + 1)));
}

void GgufConfigWriter::WriteHeads() {
  if (form_.no_heads) return;
  if (form_.latent_attention) return WriteLatentHeads();
  const int64_t num_heads = NumHeads();
  const int64_t hidden = Required("embedding_length", 1, kMaxHiddenDim);
  if (const std::string kv_heads = Key("attention.head_count_kv"); form_.mixed_layers && fields_.IsArray(kv_heads)) {
    json_["num_key_value_heads"] = KvHeadsOfLayers(kv_heads);
  } else if (!form_.layer_heads) {
    Copy("attention.head_count_kv", "num_key_value_heads");
  }
  const std::string key = Key("attention.key_length");
  head_dim_ = fields_.Int(key, 1, kMaxHeadDim).value_or(std::max(hidden / num_heads, int64_t{1}));
  const int64_t value_dim = fields_.Int(Key("attention.value_length"), 1, kMaxHeadDim).value_or(head_dim_);
  if (form_.narrow_values) {
    json_["v_head_dim"] = value_dim;
  } else if (value_dim != head_dim_) {
    fields_.Fail(key, absl::StrCat("is ", head_dim_, " and attention.value_length ", value_dim,
                                   "; heads of different sizes are not supported"));
  }
  if (!form_.head_dim_follows) {
    json_["head_dim"] = head_dim_;
  } else if (head_dim_ != hidden / num_heads) {
    fields_.Fail(
        key, absl::StrCat("is ", head_dim_, "; ", num_heads, " heads of ", hidden, " make it ", hidden / num_heads));
  }
}

void GgufConfigWriter::WriteRotation() {
  const int64_t rotated = fields_.Int(Key("rope.dimension_count"), 1, kMaxHeadDim).value_or(head_dim_);
  if (form_.partial_rotary_field != nullptr) {
    // The parser truncates the product with head_dim; a quarter more keeps it from rounding below the integer.
    const double part =
        (static_cast<double>(rotated) + (rotated < head_dim_ ? 0.25 : 0.0)) / static_cast<double>(head_dim_);
    json_[form_.partial_rotary_field] = part;
  } else if (rotated != head_dim_) {
    fields_.Fail(Key("rope.dimension_count"),
                 absl::StrCat("is ", rotated, " of ", head_dim_, "; a part of a head is not supported here"));
  }
  if (fields_.Has(Key("rope.dimension_sections")) && !form_.image_sections) {
    fields_.Fail(Key("rope.dimension_sections"), "is set; rotations by image positions are not supported");
  }
  const std::string type = fields_.Text(Key("rope.scaling.type"), kMaxConfigWordBytes);
  if (HasTensor(kGgufShortFactors) || type == "longrope") return WriteLongrope(rotated / 2);
  WriteScaling(type);
}

// Files before `rope.scaling.type` have a factor alone, which is linear.
void GgufConfigWriter::WriteScaling(const std::string& type) {
  const char* factor = fields_.Has(Key("rope.scaling.factor")) ? "rope.scaling.factor" : "rope.scale_linear";
  const bool untyped = type.empty() && fields_.Number(Key(factor)).value_or(1.0) != 1.0;
  if (type == "none" || (type.empty() && !untyped)) return;
  if (!untyped && type != "linear" && type != "yarn") {
    return fields_.Fail(Key("rope.scaling.type"),
                        absl::StrCat("is '", type, "'; must be none, linear, yarn or longrope"));
  }
  Json scaling = {{"rope_type", untyped ? "linear" : type}};
  const auto copy = [&](const char* suffix, const char* field) {
    if (const std::optional<Json> value = Value(Key(suffix))) scaling[field] = *value;
  };
  copy(factor, "factor");
  copy("rope.scaling.original_context_length", "original_max_position_embeddings");
  copy("rope.scaling.yarn_beta_fast", "beta_fast");
  copy("rope.scaling.yarn_beta_slow", "beta_slow");
  copy("rope.scaling.yarn_attn_factor", "attention_factor");
  if (fields_.Number(Key("rope.scaling.attn_factor")).value_or(1.0) != 1.0) {
    fields_.Fail(Key("rope.scaling.attn_factor"), "is not 1, which is not supported");
  }
  json_["rope_scaling"] = scaling;
}

// Up to the original context, which is what is served, the short factors apply.
void GgufConfigWriter::WriteLongrope(int64_t num_pairs) {
  if (!fields_.status().ok()) return;
  const auto factors = ReadGgufFactors(tensors_, kGgufShortFactors, static_cast<size_t>(num_pairs));
  if (!factors.ok()) return fields_.Adopt(factors.status());
  Json scaling = {{"rope_type", "longrope"}};
  for (const float factor : *factors) scaling["short_factor"].push_back(ShortestDecimal(factor));
  if (const auto context = Value(Key("rope.scaling.original_context_length"))) {
    scaling["original_max_position_embeddings"] = *context;
  }
  if (const auto factor = Value(Key("rope.scaling.attn_factor"))) scaling["attention_factor"] = *factor;
  json_["rope_scaling"] = scaling;
}

void GgufConfigWriter::WriteExperts() {
  const int64_t count = fields_.Int(Key("expert_count"), 0, kMaxExperts).value_or(0);
  if (count == 0 && !form_.experts) return;
  if (!form_.experts) {
    return fields_.Fail(Key("expert_count"),
                        absl::StrCat("is ", count, "; this architecture has none, or '", kGgufRouter, "' is missing"));
  }
  json_["num_local_experts"] = Required("expert_count", 1, kMaxExperts);
  json_["num_experts_per_tok"] = Required("expert_used_count", 1, std::max(count, int64_t{1}));
}

int64_t GgufConfigWriter::ExpertWidth() {
  const std::string key = Key("expert_feed_forward_length");
  if (fields_.Has(key)) return fields_.Int(key, 1, kMaxFfnDim).value_or(1);
  return Required("feed_forward_length", 1, kMaxFfnDim) / Required("expert_used_count", 1, kMaxExperts);
}

int64_t GgufConfigWriter::Window() {
  return fields_.Int(Key("attention.sliding_window"), 0, kMaxContextTokens).value_or(0);
}

std::vector<bool> GgufConfigWriter::SlidingLayers(int64_t period, bool full_first) {
  const std::string key = Key(kPattern);
  std::vector<bool> sliding(static_cast<size_t>(num_layers_));
  if (fields_.IsArray(key)) {
    const std::vector<double> flags = NumbersOfLayers(kPattern);
    for (size_t i = 0; i < sliding.size(); ++i) sliding[i] = flags[i] != 0.0;
    return sliding;
  }
  period = fields_.Int(key, 0, kMaxLayers).value_or(period);
  for (int64_t i = 0; i < num_layers_; ++i) {
    const bool full = period > 0 && i % period == (full_first ? 0 : period - 1);
    sliding[static_cast<size_t>(i)] = !full;
  }
  return sliding;
}

void GgufConfigWriter::WriteWindows(const char* field, int64_t period, bool full_first) {
  const int64_t window = Window();
  json_[field] = window > 0 ? Json(window) : Json(nullptr);
  json_["layer_types"] = Json::array();
  for (const bool slides : SlidingLayers(period, full_first)) {
    json_["layer_types"].push_back(window > 0 && slides ? "sliding_attention" : "full_attention");
  }
}

namespace {

// Tokens that end a turn. Files of chat models often name the token that ends a text as their only EOS. In the harmony
// format, which has a token for what it returns, <|end|> is between two messages of one turn.
constexpr const char* kTurnEnds[] = {"<|eot_id|>",    "<|eom_id|>",      "<|im_end|>", "<end_of_turn>",
                                     "<|endoftext|>", "<|end_of_text|>", "<EOT>",      "<|call|>",
                                     "<|return|>",    "<|end|>",         "<turn|>",    "<|tool_response>"};
constexpr std::string_view kReturn = "<|return|>";
constexpr std::string_view kEnd = "<|end|>";
constexpr double kNormalToken = 1.0;  // tokenizer.ggml.token_type
constexpr const char* kSuppressed = "tokenizer.ggml.suppress_tokens";

void AddTurnEnds(GgufFields& fields, std::set<int64_t>* ids) {
  const std::vector<std::string> tokens =
      fields.Texts("tokenizer.ggml.tokens", static_cast<uint64_t>(kMaxVocabSize), kMaxTokenBytes);
  const std::vector<double> types = fields.Numbers("tokenizer.ggml.token_type", static_cast<uint64_t>(kMaxVocabSize));
  const bool harmony = std::find(tokens.begin(), tokens.end(), kReturn) != tokens.end();
  for (size_t i = 0; i < std::min(tokens.size(), types.size()); ++i) {
    const auto is_end = [&](const char* end) { return tokens[i] == end; };
    if (types[i] == kNormalToken || (harmony && tokens[i] == kEnd)) continue;
    if (std::any_of(std::begin(kTurnEnds), std::end(kTurnEnds), is_end)) ids->insert(static_cast<int64_t>(i));
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
  Json generation = Json::object();
  if (!ids.empty()) generation["eos_token_id"] = ids;
  for (const double id : fields.Numbers(kSuppressed, kMaxSuppressedTokenIds)) {
    if (id >= 0.0 && id <= INT32_MAX) generation["suppress_tokens"].push_back(static_cast<int64_t>(id));
  }
  return generation.empty() ? "" : generation.dump();
}

}  // namespace

absl::StatusOr<GgufConfigTexts> WriteGgufConfig(const GgufForm& form, const char* model_type,
                                                const GgufTensors& tensors) {
  const absl::StatusOr<Json> config = GgufConfigWriter(form, model_type, tensors).Write();
  if (!config.ok()) return config.status();
  GgufFields fields(tensors.first());
  GgufConfigTexts texts{.config = config->dump(), .generation = GenerationText(fields)};
  if (!fields.status().ok()) return fields.status();
  return texts;
}

}  // namespace dunlin::engine
