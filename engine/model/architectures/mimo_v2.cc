// SPDX-License-Identifier: Apache-2.0
// MiMo V2 Flash: heads of V narrower than those of Q and K; layers with a window have more heads of K and V, attention
// sinks and a rotation of their own; experts chosen by DeepSeek V3's rule, without shared ones.
// Source: transformers 5.23, models/mimo_v2_flash.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kMimoDefaults = {
    .max_context = 131072,
    .head_dim = 192,
    .ffn_dim = 16384,
    .norm_epsilon = 1e-5,
    .rotary = {.default_partial_factor = 0.334, .partial = true, .default_theta = 5e6, .nested = "full_attention"}};
constexpr RotaryFields kMimoSlidingRotary = {
    .theta = "swa_rope_theta", .default_partial_factor = 0.334, .partial = true, .nested = "sliding_attention"};
constexpr int32_t kMimoFullEvery = 6;

// A list of 0 and 1 for each layer as published configs have them; empty where the config has none.
std::vector<int64_t> LayerFlags(JsonFields& fields, const char* name, const ModelConfig& config) {
  std::vector<int64_t> flags = fields.IntListOr(name, 0, 1, kMaxLayers);
  if (!flags.empty() && flags.size() != static_cast<size_t>(config.num_layers)) {
    fields.Fail(absl::StrCat(name, " has ", flags.size(), " entries; num_hidden_layers is ", config.num_layers));
  }
  return flags;
}

// layer_types, or else hybrid_layer_pattern, or else all but the first layer and every sixth.
std::vector<bool> MimoSlidingLayers(JsonFields& fields, const ModelConfig& config) {
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  const std::vector<int64_t> pattern = LayerFlags(fields, "hybrid_layer_pattern", config);
  if (!types.empty() && types.size() != static_cast<size_t>(config.num_layers)) {
    fields.Fail(absl::StrCat("layer_types has ", types.size(), " entries; num_hidden_layers is ", config.num_layers));
  }
  std::vector<bool> sliding;
  for (int32_t layer = 0; fields.status().ok() && layer < config.num_layers; ++layer) {
    const auto at = static_cast<size_t>(layer);
    const bool by_default = layer != 0 && (layer + 1) % kMimoFullEvery != 0;
    sliding.push_back(!types.empty()    ? types[at] == "sliding_attention"
                      : pattern.empty() ? by_default
                                        : pattern[at] == 1);
    if (types.empty() || sliding.back() || types[at] == "full_attention") continue;
    fields.Fail(absl::StrCat("layer_types[", layer, "] is '", types[at].substr(0, 32),
                             "'; known: full_attention, sliding_attention"));
  }
  return sliding;
}

// A token's own key counts in transformers' sliding_window, and not in the publisher's sliding_window_size.
void SetMimoWindows(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  const int64_t before = fields.IntOr("sliding_window_size", 1, kMaxContextTokens - 1, 0);
  const int64_t window = before > 0 ? before + 1 : fields.IntOr("sliding_window", 1, kMaxContextTokens, 129);
  if (window >= config->max_context) return;
  for (const bool slides : sliding) {
    config->attention.layer_windows.push_back(slides ? static_cast<int32_t>(window) : 0);
  }
}

// Sliding layers have heads of the same size as the others.
void SetMimoHeads(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  AttentionSpec& attention = config->attention;
  const int64_t head_dim = attention.head_dim;
  const auto same = [&fields](const char* name, int64_t expected) {
    const int64_t given = fields.IntOr(name, 1, kMaxFfnDim, expected);
    if (given != expected)
      fields.Fail(absl::StrCat(name, " is ", given, "; must be ", expected, ", as of full layers"));
  };
  const int64_t value_dim = fields.IntOr("v_head_dim", 1, head_dim, std::min<int64_t>(head_dim, 128));
  same("swa_num_attention_heads", attention.num_heads);
  same("swa_head_dim", head_dim);
  same("swa_v_head_dim", value_dim);
  const int64_t kv_heads = fields.IntOr("swa_num_key_value_heads", 1, kMaxHeads, int64_t{2} * attention.num_kv_heads);
  if (!fields.status().ok()) return;
  if (attention.num_heads % kv_heads != 0) {
    return fields.Fail(absl::StrCat("sliding layers have ", kv_heads, " key-value heads, which do not divide ",
                                    attention.num_heads, " heads"));
  }
  if (value_dim < head_dim) attention.stored_value_dim = static_cast<int32_t>(value_dim);
  for (const bool slides : sliding) {
    const int32_t of_layer = slides ? static_cast<int32_t>(kv_heads) : attention.num_kv_heads;
    attention.layer_heads.push_back({attention.num_heads, of_layer, attention.head_dim});
  }
}

void SetMimoSinks(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  const bool of_sliding = fields.BoolOr("add_swa_attention_sink_bias", true);
  const bool of_full = fields.BoolOr("add_full_attention_sink_bias", false);
  AttentionSpec& attention = config->attention;
  for (const bool slides : sliding) {
    attention.sink_layers.push_back(slides ? of_sliding : of_full);
    attention.sinks = attention.sinks || attention.sink_layers.back();
  }
}

void SetMimoRotations(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  const bool plain = !fields.Has("rope_parameters");
  const RotaryScaling full = ParseRotaryScaling(fields, kMimoDefaults.rotary, config->max_context);
  const RotaryScaling of_sliding = ParseRotaryScaling(fields, kMimoSlidingRotary, config->max_context);
  if (!fields.status().ok()) return;
  if (!plain && full.partial_factor != of_sliding.partial_factor) {
    return fields.Fail("rope_parameters rotate other parts of heads in sliding layers than in the others");
  }
  AddSlidingRotary(fields, kMimoSlidingRotary, plain, sliding, config);
}

void SetMimoExperts(JsonFields& fields, ModelConfig* config) {
  ParseExperts(fields, {.num_experts = 256, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 2048},
               config);
  ParseGroupedRouting(fields, {}, config);
  const std::vector<int64_t> sparse = LayerFlags(fields, "moe_layer_freq", *config);
  if (sparse.empty()) return ParseDenseLayers(fields, 1, config);
  for (const int64_t has_experts : sparse) config->experts.dense_layers.push_back(has_experts == 0);
}

void ParseMimoV2(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kMimoDefaults, config);
  if (fields.Has("layernorm_epsilon")) {
    config->norm.epsilon = static_cast<float>(fields.Number("layernorm_epsilon", 1e-12, 1.0));
  }
  RefuseUnsupported(fields, {"attention_bias"});  // values have a factor
  const double factor = fields.Mentions("attention_value_scale") && !fields.Has("attention_value_scale")
                            ? 1.0
                            : fields.NumberOr("attention_value_scale", 1e-6, 1e6, 0.707);
  config->factors.value = static_cast<float>(factor);
  const std::vector<bool> sliding = MimoSlidingLayers(fields, *config);
  if (!fields.status().ok()) return;
  SetMimoWindows(fields, sliding, config);
  SetMimoHeads(fields, sliding, config);
  SetMimoSinks(fields, sliding, config);
  SetMimoRotations(fields, sliding, config);
  SetMimoExperts(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kMimoSinks[] = {
    {.slot = kAttentionSinks, .part = kAll, .name = "layers.#.self_attn.attention_sink_bias", .weight = ""},
};
constexpr WeightName kMimoCorrection[] = {
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.mlp.gate.e_score_correction_bias", .weight = ""},
};
constexpr auto kMimoWeights = WithNorms(kLlamaNorms, kLlamaExperts, kMimoCorrection, kMimoSinks);
constexpr const char* kMimoTypes[] = {"mimo_v2_flash"};
// As published the sinks have the first name, and in transformers' module the second.
constexpr NameAlias kMimoAliases[] = {{"self_attn.attention_sink_bias", "self_attn.sinks"}};

// Which layers have sinks or experts is told by their tensors. A file without the factor of values takes the published
// model's. Source: llama.cpp, src/models/mimo2.cpp.
void WriteGgufMimo(GgufConfigWriter* config) {
  const std::vector<bool> sliding = config->SlidingLayers(kMimoFullEvery);
  RequireGgufWindow(config);
  if (!config->fields().status().ok()) return;
  config->WriteWindows("sliding_window_size", kMimoFullEvery);
  (*config)["num_key_value_heads"] = GgufHeadsOfKind(config, "attention.head_count_kv", sliding, false);
  (*config)["swa_num_key_value_heads"] = GgufHeadsOfKind(config, "attention.head_count_kv", sliding, true);
  config->CopyOr("rope.freq_base_swa", "swa_rope_theta", kGgufLocalTheta);
  config->Copy("attention.value_scale", "attention_value_scale");
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  config->CopyOr("expert_weights_scale", "routed_scaling_factor", 1.0);
  RequireGgufSigmoidGating(config);
  bool sinks[] = {false, false};
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    const std::string stem = absl::StrCat("blk.", layer, ".");
    sinks[sliding[layer] ? 1 : 0] |= config->HasTensor(stem + "attn_sinks.weight");
    (*config)["moe_layer_freq"].push_back(config->HasTensor(stem + "ffn_gate_inp.weight") ? 1 : 0);
  }
  (*config)["add_full_attention_sink_bias"] = sinks[0];
  (*config)["add_swa_attention_sink_bias"] = sinks[1];
}

constexpr GgufForm kMimoGguf[] = {{.name = "mimo2",
                                   .write_fields = &WriteGgufMimo,
                                   .partial_rotary_field = "partial_rotary_factor",
                                   .experts = true,
                                   .layer_heads = true,
                                   .narrow_values = true}};

}  // namespace

extern const Architecture kMimoV2 = {.name = "mimo_v2_flash",
                                     .model_types = kMimoTypes,
                                     .parse_config = &ParseMimoV2,
                                     .names = {kLlamaPrefixes, kMimoWeights, kLlamaBuffers, kMimoAliases},
                                     .gguf = kMimoGguf};

}  // namespace dunlin::engine
