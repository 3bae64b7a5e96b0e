// SPDX-License-Identifier: Apache-2.0
// Gemma 4, its text model: Gemma 3 with norm weights of w, wider heads of another number in the layers that see every
// token, whose keys may be their values, rotations in proportion to those heads, normed values, and a factor of each
// layer's rows. The small ones (E2B, E4B) have layers that read the keys and values of others, and per-layer
// embeddings. Of the multimodal checkpoints the text part is served. Source: transformers 5.24, models/gemma4,
// models/gemma4_unified.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kGemma4Pattern = 6;  // layers, of which the last sees every token
constexpr int64_t kGemma4DefaultKvHeads = 4;
constexpr int64_t kGemma4DefaultHeadDim = 256;
constexpr int64_t kGemma4DefaultGlobalDim = 512;

// What the unified text model of 12B has by default otherwise.
struct Gemma4Defaults {
  int64_t max_context;
  int64_t window;
  int64_t per_layer_width;  // hidden_size_per_layer_input
};
constexpr Gemma4Defaults kGemma4Own = {131072, 512, 256};
constexpr Gemma4Defaults kGemma4Unified = {262144, 1024, 0};

// The last layers read the keys and values of the last earlier layer of their type, and may have MLPs of twice the
// width.
void SetSharedLayers(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  const int64_t num_layers = config->num_layers;
  const int64_t shared = fields.IntOr("num_kv_shared_layers", 0, num_layers - 1, 0);
  if (!fields.status().ok() || shared == 0) return;
  const int64_t first = num_layers - shared;
  int32_t last[2] = {-1, -1};  // layer with keys and values of its own, full and sliding
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    int32_t& of_type = last[sliding[static_cast<size_t>(layer)] ? 1 : 0];
    if (layer < first) of_type = static_cast<int32_t>(layer);
    if (of_type < 0) {
      return fields.Fail(absl::StrCat("num_kv_shared_layers is ", shared, ", but no layer before ", first,
                                      " is of the type of layer ", layer));
    }
    config->attention.kv_sources.push_back(layer < first ? static_cast<int32_t>(layer) : of_type);
  }
  if (!fields.BoolOr("use_double_wide_mlp", false)) return;
  if (config->mlp.ffn_dim > kMaxFfnDim / 2) {
    return fields.Fail(absl::StrCat("intermediate_size is ", config->mlp.ffn_dim, "; limit is ", kMaxFfnDim / 2,
                                    " with use_double_wide_mlp"));
  }
  for (int64_t layer = 0; layer < num_layers; ++layer) {
    config->mlp.layer_dims.push_back(config->mlp.ffn_dim * (layer < first ? 1 : 2));
  }
  config->mlp.ffn_dim *= 2;
}

void SetLayerInputs(JsonFields& fields, int64_t default_width, ModelConfig* config) {
  LayerInputSpec& inputs = config->layer_inputs;
  inputs.width = static_cast<int32_t>(fields.IntOr("hidden_size_per_layer_input", 0, config->hidden_dim,
                                                   std::min<int64_t>(default_width, config->hidden_dim)));
  if (inputs.width == 0) return;
  inputs.vocab_size = static_cast<int32_t>(fields.IntOr("vocab_size_per_layer_input", config->vocab_size, kMaxVocabSize,
                                                        std::max(config->vocab_size, 262144)));
  inputs.scale = static_cast<float>(std::sqrt(static_cast<double>(inputs.width)));
}

// per_layer_config: what transformers 5.24 writes in place of global_head_dim and num_global_key_value_heads.
void ReadLayerHeads(JsonFields& fields, const nlohmann::json& layers, std::vector<HeadShape>* heads) {
  for (const auto& [index, overrides] : layers.items()) {
    const bool known = index.size() <= 4 && index.find_first_not_of("0123456789") == std::string::npos &&
                       !index.empty() && static_cast<size_t>(std::stoi(index)) < heads->size() && overrides.is_object();
    if (!known) {
      return fields.Fail(absl::StrCat("per_layer_config has '", index.substr(0, 32),
                                      "'; its members are objects of 0 to ", heads->size() - 1, ", the layers"));
    }
    HeadShape& shape = (*heads)[static_cast<size_t>(std::stoi(index))];
    JsonFields layer(overrides, absl::StrCat(fields.where(), ": per_layer_config.", index));
    shape.head_dim = static_cast<int32_t>(layer.IntOr("head_dim", 1, kMaxHeadDim, shape.head_dim));
    shape.num_kv_heads = static_cast<int32_t>(layer.IntOr("num_key_value_heads", 1, kMaxHeads, shape.num_kv_heads));
    for (const auto& [name, value] : overrides.items()) {
      if (name != "head_dim" && name != "num_key_value_heads") {
        layer.Fail(absl::StrCat(name.substr(0, 64), " differs by layer, which is not supported"));
      }
    }
    fields.Adopt(layer.status());
  }
}

// Experts next to each layer's MLP.
void SetExperts(JsonFields& fields, ModelConfig* config) {
  if (!fields.BoolOr("enable_moe_block", false)) return;
  ExpertSpec& experts = config->experts;
  experts.routing.num_experts = static_cast<int32_t>(fields.Int("num_experts", 1, kMaxExperts));
  experts.routing.num_chosen =
      static_cast<int32_t>(fields.Int("top_k_experts", 1, std::max(experts.routing.num_experts, 1)));
  experts.routing.normalized = true;
  experts.ffn_dim = static_cast<int32_t>(fields.Int("moe_intermediate_size", 1, kMaxFfnDim));
  experts.beside_mlp = true;
}

// One shape of the sliding layers and one of the others, which has the wider heads or is the same.
void CheckLayerHeads(JsonFields& fields, const std::vector<bool>& sliding, const std::vector<HeadShape>& heads) {
  for (size_t layer = 0; layer < heads.size(); ++layer) {
    const HeadShape& shape = heads[layer];
    const auto first = std::find(sliding.begin(), sliding.end(), static_cast<bool>(sliding[layer])) - sliding.begin();
    const std::string which = absl::StrCat("layer ", layer);
    if (shape.num_heads % shape.num_kv_heads != 0) {
      return fields.Fail(absl::StrCat(which, " has ", shape.num_kv_heads, " key-value heads, which do not divide ",
                                      shape.num_heads, " heads"));
    }
    if (shape.head_dim % 2 != 0) {
      return fields.Fail(
          absl::StrCat(which, " has a head_dim of ", shape.head_dim, "; rotary positions need an even one"));
    }
    if (!(shape == heads[static_cast<size_t>(first)])) {
      return fields.Fail(absl::StrCat(which, " has other heads than layer ", first, ", of the same type"));
    }
  }
}

void SetLayerHeads(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  AttentionSpec& attention = config->attention;
  const bool keys_as_values = fields.BoolOr("attention_k_eq_v", false);
  std::vector<HeadShape> heads(sliding.size(), attention.heads(0));
  if (const nlohmann::json* layers = fields.Object("per_layer_config"); layers != nullptr) {
    ReadLayerHeads(fields, *layers, &heads);
  } else {
    const int64_t kv_heads = attention.num_kv_heads;
    const HeadShape global = {
        attention.num_heads,
        static_cast<int32_t>(keys_as_values ? fields.IntOr("num_global_key_value_heads", 1, kMaxHeads, kv_heads)
                                            : kv_heads),
        static_cast<int32_t>(fields.IntOr("global_head_dim", 1, kMaxHeadDim, kGemma4DefaultGlobalDim))};
    for (size_t layer = 0; layer < heads.size(); ++layer) {
      if (!sliding[layer]) heads[layer] = global;
    }
  }
  CheckLayerHeads(fields, sliding, heads);
  if (!fields.status().ok()) return;
  const auto widest = std::max_element(heads.begin(), heads.end(),
                                       [](const HeadShape& a, const HeadShape& b) { return a.head_dim < b.head_dim; });
  attention.num_kv_heads = widest->num_kv_heads;
  attention.head_dim = widest->head_dim;
  if (keys_as_values) {
    for (const bool slides : sliding) attention.keys_as_values.push_back(!slides);
  }
  attention.layer_heads = std::move(heads);
}

// Rotation 0 is that of the layers that see every token, 1 that of the sliding ones.
void SetRotations(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  const bool given = fields.Has("rope_parameters");
  RotarySpec& rotary = config->rotary;
  for (const bool slides : {false, true}) {
    const auto layer = std::find(sliding.begin(), sliding.end(), slides);
    const RotaryFields names = {.default_partial_factor = given || slides ? 1.0 : 0.25,
                                .default_theta = slides ? 1e4 : 1e6,
                                .default_type = given || slides ? "default" : "proportional",
                                .nested = slides ? "sliding_attention" : "full_attention",
                                .stretched = true};
    const RotaryScaling scaling = ParseRotaryScaling(fields, names, config->max_context);
    if (!fields.status().ok()) return;
    if (scaling.kind == RotaryScalingKind::kLongrope) return fields.Fail("rope_type longrope is not supported here");
    const auto index = static_cast<int32_t>(layer == sliding.end() ? 0 : layer - sliding.begin());
    const int32_t dim = config->attention.heads(index).head_dim;
    AddRotation(scaling, dim, &rotary);
  }
  for (const bool slides : sliding) rotary.layer_index.push_back(slides ? 1 : 0);
}

// The last layer sees every token whatever its type.
std::vector<bool> SetGemma4Windows(JsonFields& fields, int64_t window, ModelConfig* config) {
  std::vector<bool> sliding = SetWindows(fields, window, {.full_every = kGemma4Pattern}, config);
  if (sliding.empty()) return sliding;
  sliding.back() = false;
  if (!config->attention.layer_windows.empty()) config->attention.layer_windows.back() = 0;
  return sliding;
}

void ParseGemma4(JsonFields& fields, ModelConfig* config) {
  const bool unified = fields.TextOr("model_type", "gemma4_text") == "gemma4_unified_text";
  const Gemma4Defaults& defaults = unified ? kGemma4Unified : kGemma4Own;
  SetSizes(fields, defaults.max_context, config);
  SetHeads(fields, fields.Int("num_attention_heads", 1, kMaxHeads),
           fields.IntOr("num_key_value_heads", 1, kMaxHeads, kGemma4DefaultKvHeads),
           fields.IntOr("head_dim", 1, kMaxHeadDim, kGemma4DefaultHeadDim), config);
  if (fields.TextOr("use_bidirectional_attention", "") == "all") {
    fields.Fail("use_bidirectional_attention is 'all', which is not supported");
  }
  SetLayerInputs(fields, defaults.per_layer_width, config);
  SetExperts(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.scale = 1.0F;
  config->attention.qk_norm = config->attention.value_norm = true;
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, 1e-6));
  config->norm.placement = NormPlacement::kPreAndPost;
  config->layer_factor = true;
  config->mlp.activation = ParseActivation(fields, "hidden_activation", "gelu_pytorch_tanh");
  config->mlp.gated = true;
  config->embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_dim)));
  config->head.tied = fields.BoolOr("tie_word_embeddings", true);
  config->head.softcap = static_cast<float>(fields.NumberOr("final_logit_softcapping", 1e-3, 1e6, 0.0));
  const int64_t window = fields.IntOr("sliding_window", 1, kMaxContextTokens, defaults.window);
  if (!fields.status().ok()) return;
  const std::vector<bool> sliding = SetGemma4Windows(fields, window, config);
  if (!fields.status().ok()) return;
  SetLayerHeads(fields, sliding, config);
  SetSharedLayers(fields, sliding, config);
  if (fields.status().ok()) SetRotations(fields, sliding, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kGemma4Others[] = {
    {kQkv, kKeyAndValue, "layers.#.self_attn.k_proj"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_norm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_norm"},
    {kPostAttentionNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpNorm, kAll, "layers.#.pre_feedforward_layernorm"},
    {kPostMlpNorm, kAll, "layers.#.post_feedforward_layernorm"},
    {kLayerTable, kAll, "embed_tokens_per_layer"},
    {kLayerProjection, kAll, "per_layer_model_projection"},
    {kLayerProjectionNorm, kAll, "per_layer_projection_norm"},
    {kLayerInputGate, kAll, "layers.#.per_layer_input_gate"},
    {kLayerInputOut, kAll, "layers.#.per_layer_projection"},
    {kPostLayerInputNorm, kAll, "layers.#.post_per_layer_input_norm"},
    {.slot = kRouterNorm, .part = kAll, .name = "layers.#.router.scale", .weight = ""},
    {kRouter, kExperts, "layers.#.router.proj"},
    {.slot = kExpertScales, .part = kAll, .name = "layers.#.router.per_expert_scale", .weight = ""},
    {kExpertsNorm, kAll, "layers.#.pre_feedforward_layernorm_2"},
    {kPostDenseNorm, kAll, "layers.#.post_feedforward_layernorm_1"},
    {kPostExpertsNorm, kAll, "layers.#.post_feedforward_layernorm_2"},
    {.slot = kLayerFactor, .part = kAll, .name = "layers.#.layer_scalar", .weight = ""},
};
// As published the experts are stacked; quantised checkpoints have a matrix for each.
constexpr WeightName kGemma4Experts[] = {
    {kExpertUp, kGate, "layers.#.experts.@.gate_proj"},
    {kExpertUp, kUp, "layers.#.experts.@.up_proj"},
    {kExpertDown, kAll, "layers.#.experts.@.down_proj"},
};
constexpr WeightName kGemma4Stacks[] = {
    {.slot = kExpertUp, .part = kAll, .name = "layers.#.experts.@.gate_up_proj", .weight = ""},
    {.slot = kExpertDown, .part = kAll, .name = "layers.#.experts.@.down_proj", .weight = ""},
};
constexpr auto kGemma4Weights = WithNorms(kGemma4Others, kGemma4Experts);
constexpr auto kGemma4Stacked = WithNorms(kGemma4Others, kGemma4Stacks);
constexpr const char* kGemma4Types[] = {"gemma4_text", "gemma4_unified_text"};
constexpr const char* kGemma4Outer[] = {"gemma4", "gemma4_unified"};

// A file has the size of full layers' heads under the usual key, that of sliding ones under a key of its own.
void WriteGgufHeads(GgufConfigWriter* config, const std::vector<bool>& sliding) {
  const std::vector<int64_t> kv_heads = config->OfLayers("attention.head_count_kv", 1, kMaxHeads);
  const int64_t sliding_dim = config->Required("attention.key_length_swa", 1, kMaxHeadDim);
  (*config)["num_key_value_heads"] = kv_heads.front();
  (*config)["head_dim"] = sliding_dim;
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    (*config)["per_layer_config"][std::to_string(layer)] = {
        {"head_dim", sliding[layer] ? sliding_dim : config->head_dim()}, {"num_key_value_heads", kv_heads[layer]}};
  }
  for (const char* same : {"attention.value_length_swa", "rope.dimension_count_swa"}) {
    const int64_t given = config->fields().Int(config->Key(same), 0, kMaxHeadDim).value_or(sliding_dim);
    if (given == sliding_dim) continue;
    config->fields().Fail(config->Key(same),
                          absl::StrCat("is ", given, "; must be attention.key_length_swa, ", sliding_dim));
  }
  const auto first_full = std::find(sliding.begin(), sliding.end(), false) - sliding.begin();
  (*config)["attention_k_eq_v"] = !config->HasTensor(absl::StrCat("blk.", first_full, ".attn_v.weight"));
}

// Layers that read keys and values of others may have MLPs of twice the width.
void WriteGgufWidths(GgufConfigWriter* config) {
  const std::vector<int64_t> widths = config->OfLayers("feed_forward_length", 1, 2 * kMaxFfnDim);
  const int64_t shared = config->fields().Int(config->Key("attention.shared_kv_layers"), 0, kMaxLayers).value_or(0);
  const bool wide = shared > 0 && widths.back() == 2 * widths.front();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const int64_t expected = widths.front() * (wide && layer >= config->num_layers() - shared ? 2 : 1);
    const int64_t width = widths[static_cast<size_t>(layer)];
    if (width == expected) continue;
    config->fields().Fail(config->Key("feed_forward_length"),
                          absl::StrCat("is ", width, " in layer ", layer, "; must be ", expected));
  }
  (*config)["num_kv_shared_layers"] = shared;
  (*config)["use_double_wide_mlp"] = wide;
  (*config)["intermediate_size"] = widths.front();
}

// Of full layers rope_freqs tell which pairs rotate: 1 for those, then 1e30, which amounts to none.
void WriteGgufRotations(GgufConfigWriter* config) {
  constexpr float kUnrotated = 1e30F;
  const int64_t pairs = config->head_dim() / 2;
  const std::vector<float> factors = config->Factors(kGgufRotaryFactors, pairs, kUnrotated);
  const auto unrotated = std::find_if(factors.begin(), factors.end(), [](float factor) { return factor != 1.0F; });
  if (std::any_of(unrotated, factors.end(), [](float factor) { return factor != kUnrotated; })) {
    config->fields().Fail(kGgufRotaryFactors, "has other factors than 1 and, after those, 1e30");
  }
  if (config->fields().Has(config->Key("rope.scaling.factor"))) {
    config->fields().Fail(config->Key("rope.scaling.factor"), "is set, which is not supported here");
  }
  const auto rotated = static_cast<double>(unrotated - factors.begin());
  // The parser truncates the product with the pairs; a quarter more keeps it from rounding below the integer.
  const double part = rotated == static_cast<double>(pairs) ? 1.0 : (rotated + 0.25) / static_cast<double>(pairs);
  config->CopyOr("rope.freq_base", "rope_theta", 1e6);
  config->CopyOr("rope.freq_base_swa", "rope_local_base_freq", kGgufLocalTheta);
  (*config)["rope_parameters"] = {
      {"full_attention",
       {{"rope_type", "proportional"}, {"partial_rotary_factor", part}, {"rope_theta", (*config)["rope_theta"]}}},
      {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", (*config)["rope_local_base_freq"]}}}};
}

void WriteGgufGemma4(GgufConfigWriter* config) {
  config->WriteWindows("sliding_window", kGemma4Pattern);
  std::vector<bool> sliding;
  for (const auto& type : (*config)["layer_types"]) sliding.push_back(type == "sliding_attention");
  WriteGgufHeads(config, sliding);
  WriteGgufWidths(config);
  WriteGgufRotations(config);
  config->Copy("final_logit_softcapping", "final_logit_softcapping");
  (*config)["hidden_size_per_layer_input"] = 0;
  config->Copy("embedding_length_per_layer_input", "hidden_size_per_layer_input");
  if (const int64_t rows = config->RowsOf("per_layer_token_embd.weight"); rows > 0) {
    (*config)["vocab_size_per_layer_input"] = rows;
  }
}

void WriteGgufGemma4Experts(GgufConfigWriter* config) {
  WriteGgufGemma4(config);
  (*config)["enable_moe_block"] = true;
  (*config)["num_experts"] = (*config)["num_local_experts"];
  (*config)["top_k_experts"] = (*config)["num_experts_per_tok"];
  (*config)["moe_intermediate_size"] = config->Required("expert_feed_forward_length", 1, kMaxFfnDim);
}

constexpr GgufFieldName kGemma4GgufFields[] = {{"block_count", "num_hidden_layers"},
                                               {"embedding_length", "hidden_size"},
                                               {"attention.head_count", "num_attention_heads"},
                                               {"context_length", "max_position_embeddings"},
                                               {kGgufRmsKey, "rms_norm_eps"}};
// In the form of 26B the experts' gates and ups are one stack, or two.
constexpr GgufForm kGemma4Gguf[] = {{.name = "gemma4",
                                     .fields = kGemma4GgufFields,
                                     .weights = gguf_names::kLayerInputsFused,
                                     .write_fields = &WriteGgufGemma4Experts,
                                     .tensor = "blk.0.ffn_gate_up_exps.weight",
                                     .experts = true,
                                     .layer_heads = true,
                                     .factors_in_config = true},
                                    {.name = "gemma4",
                                     .fields = kGemma4GgufFields,
                                     .weights = gguf_names::kLayerInputsExperts,
                                     .write_fields = &WriteGgufGemma4Experts,
                                     .tensor = "blk.0.ffn_gate_exps.weight",
                                     .experts = true,
                                     .layer_heads = true,
                                     .factors_in_config = true},
                                    {.name = "gemma4",
                                     .fields = kGemma4GgufFields,
                                     .weights = gguf_names::kLayerInputsDense,
                                     .write_fields = &WriteGgufGemma4,
                                     .layer_heads = true,
                                     .factors_in_config = true}};

}  // namespace

extern const Architecture kGemma4Text = {.name = "gemma4_text",
                                         .model_types = kGemma4Types,
                                         .parse_config = &ParseGemma4,
                                         .names = {.prefixes = kLlamaPrefixes,
                                                   .weights = kGemma4Weights,
                                                   .ignored = kLlamaBuffers,
                                                   .aliases = kTextPartAliases,
                                                   .stacked = kGemma4Stacked},
                                         .gguf = kGemma4Gguf,
                                         .multimodal_types = kGemma4Outer};

}  // namespace dunlin::engine
