// SPDX-License-Identifier: Apache-2.0
// Step 3.5 and 3.7 Flash: sliding layers with other numbers of query heads and a rotation of their own, a gate of each
// head's output, a norm over each head of Q and K, norms of 1 + w; experts chosen by sigmoids with a correction and a
// shared one, whose gates are cut at limits of each layer. Source: transformers 5.23, models/step3p7.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

using Json = nlohmann::json;

constexpr int64_t kStepContext = 128000;
constexpr int64_t kStepFirstSparse = 3;
constexpr int64_t kStepFullEvery = 4;  // layer 0 and each fourth, where files do not say
constexpr RotaryFields kStepRotary = {.partial = true, .nested = "full_attention"};
constexpr RotaryFields kStepSlidingRotary = {.partial = true, .nested = "sliding_attention"};

// Published lists have entries for the layers that predict further tokens, too. Returns whether `size` fits.
bool CheckStepList(JsonFields& fields, const char* name, size_t size, const ModelConfig& config) {
  const int64_t predicting =
      fields.IntOr(EitherName(fields, "num_nextn_predict_layers", "num_mtp_layers"), 0, kMaxLayers, 0);
  const auto num_layers = static_cast<size_t>(config.num_layers);
  if (size == num_layers || size == num_layers + static_cast<size_t>(predicting)) return true;
  fields.Fail(absl::StrCat(name, " has ", size, " entries; num_hidden_layers is ", num_layers));
  return false;
}

// layer_types; without it every layer sees all tokens.
std::vector<bool> StepSlidingLayers(JsonFields& fields, ModelConfig* config) {
  const std::vector<std::string> types = fields.TextListOr("layer_types", kMaxLayers);
  std::vector<bool> sliding(static_cast<size_t>(config->num_layers));
  if (types.empty() || !CheckStepList(fields, "layer_types", types.size(), *config)) return sliding;
  const int64_t window = fields.IntOr("sliding_window", 1, kMaxContextTokens, 0);
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    sliding[layer] = types[layer] == "sliding_attention";
    if (sliding[layer] && window == 0) {
      fields.Fail(absl::StrCat("layer_types[", layer, "] is 'sliding_attention', but no sliding_window is in use"));
    } else if (!sliding[layer] && types[layer] != "full_attention") {
      fields.Fail(absl::StrCat("layer_types[", layer, "] is '", types[layer].substr(0, 32),
                               "'; known: full_attention, sliding_attention"));
    }
  }
  const bool any = std::find(sliding.begin(), sliding.end(), true) != sliding.end();
  if (!any || window >= config->max_context) return sliding;
  for (const bool slides : sliding) {
    config->attention.layer_windows.push_back(slides ? static_cast<int32_t>(window) : 0);
  }
  return sliding;
}

// attention_other_setting: heads of sliding layers, of which only the number of queries' may differ.
int64_t PublishedSlidingHeads(JsonFields& fields, const AttentionSpec& attention) {
  const Json* object = fields.Object("attention_other_setting");
  if (object == nullptr) return attention.num_heads;
  JsonFields other(*object, absl::StrCat(fields.where(), ": attention_other_setting"));
  const auto same = [&other](const char* name, int64_t expected) {
    const int64_t given = other.IntOr(name, 1, kMaxFfnDim, expected);
    if (given != expected) other.Fail(absl::StrCat(name, " is ", given, "; must be ", expected, ", as of full layers"));
  };
  same("num_attention_groups", attention.num_kv_heads);
  same("head_dim", attention.head_dim);
  same("true_head_dim", attention.head_dim);
  RefuseOtherThan(other, "attention_type", "sliding_attention");
  const int64_t heads = other.IntOr("num_attention_heads", 1, kMaxHeads, attention.num_heads);
  fields.Adopt(other.status());
  return heads;
}

// per_layer_config, as transformers writes it, says the same again of each sliding layer.
void CheckHeadsOfLayers(JsonFields& fields, const ModelConfig& config) {
  const Json* object = fields.Object("per_layer_config");
  if (object == nullptr) return;
  for (const auto& [name, value] : object->items()) {
    int32_t layer = -1;
    const bool known = absl::SimpleAtoi(name, &layer) && layer >= 0 && layer < config.num_layers && value.is_object() &&
                       value.size() == 1 && value.contains("num_attention_heads");
    if (!known || value["num_attention_heads"] != config.attention.heads(layer).num_heads) {
      return fields.Fail(absl::StrCat("per_layer_config.", name.substr(0, 32),
                                      " is not the number of heads of its layer (num_sliding_attention_heads)"));
    }
  }
}

void SetStepHeads(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  AttentionSpec& attention = config->attention;
  const int64_t heads =
      fields.IntOr("num_sliding_attention_heads", 1, kMaxHeads, PublishedSlidingHeads(fields, attention));
  if (!fields.status().ok()) return;
  if (heads % attention.num_kv_heads != 0) {
    return fields.Fail(absl::StrCat("sliding layers have ", heads, " heads, which ", attention.num_kv_heads,
                                    " key-value heads do not divide"));
  }
  if (heads != attention.num_heads) {
    for (const bool slides : sliding) {
      attention.layer_heads.push_back(
          {slides ? static_cast<int32_t>(heads) : attention.num_heads, attention.num_kv_heads, attention.head_dim});
    }
  }
  CheckHeadsOfLayers(fields, *config);
}

// The entry that a list of numbers has for layers of one kind; null where there is no such layer.
Json OfKind(JsonFields& fields, const char* name, const std::vector<double>& values, const std::vector<bool>& sliding,
            bool slides) {
  Json value;
  for (size_t layer = 0; layer < sliding.size(); ++layer) {
    if (sliding[layer] != slides) continue;
    if (value.is_null()) value = values[layer];
    if (value != values[layer]) {
      fields.Fail(absl::StrCat(name, "[", layer, "] is ", values[layer], "; other layers of its kind have ",
                               value.get<double>()));
    }
  }
  return value;
}

// Published configs have a base and a part of a head for each layer, and a scaling of full layers: as the object of one
// kind of layers that transformers 5 has.
Json PublishedRotation(JsonFields& fields, const std::vector<bool>& sliding, bool slides, const ModelConfig& config) {
  Json rotation = Json::object();
  const Json* scaling = fields.Object("rope_scaling");
  if (!slides && scaling != nullptr) rotation = *scaling;
  const auto copy = [&](const char* from, const char* to) {
    if (!fields.IsList(from)) {
      if (fields.Has(from)) rotation[to] = fields.Number(from, 0.0, 1e12);
      return;
    }
    const std::vector<double> values = fields.NumberListOr(from, 0.0, 1e12, kMaxLayers);
    if (!fields.status().ok() || !CheckStepList(fields, from, values.size(), config)) return;
    const Json value = OfKind(fields, from, values, sliding, slides);
    if (!value.is_null()) rotation[to] = value;
  };
  copy("rope_theta", "rope_theta");
  copy("partial_rotary_factors", "partial_rotary_factor");
  return rotation;
}

// List 0 of the rotations is that of full layers, 1 that of sliding ones.
void SetStepRotations(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  RotarySpec& rotary = config->rotary;
  for (const bool slides : {false, true}) {
    Json outer = Json::object();
    const RotaryFields& names = slides ? kStepSlidingRotary : kStepRotary;
    const Json* parameters = fields.Object("rope_parameters");
    outer["rope_parameters"][names.nested] = parameters != nullptr && parameters->contains(names.nested)
                                                 ? (*parameters)[names.nested]
                                                 : PublishedRotation(fields, sliding, slides, *config);
    if (!fields.status().ok()) return;
    JsonFields of_kind(outer, fields.where());
    const RotaryScaling scaling = ParseRotaryScaling(of_kind, names, config->max_context);
    if (scaling.kind == RotaryScalingKind::kLongrope) of_kind.Fail("rope_type longrope is not supported here");
    const auto dim = static_cast<int32_t>(config->attention.head_dim * scaling.partial_factor);
    if (of_kind.status().ok() && (dim == 0 || dim % 2 != 0)) {
      of_kind.Fail(absl::StrCat("partial_rotary_factor is ", scaling.partial_factor, ", which rotates ", dim, " of ",
                                config->attention.head_dim, " dimensions; it must be an even number of them"));
    }
    fields.Adopt(of_kind.status());
    if (!fields.status().ok()) return;
    if (!slides) config->max_context = static_cast<int32_t>(scaling.max_context);
    AddRotation(scaling, dim, &rotary);
  }
  for (const bool slides : sliding) rotary.layer_index.push_back(slides ? 1 : 0);
}

// moe_layers_enum: "3,4,5" or a list.
std::vector<bool> PublishedDenseLayers(JsonFields& fields, int32_t num_layers) {
  std::vector<bool> dense(static_cast<size_t>(num_layers), true);
  if (!fields.Has("moe_layers_enum")) {
    for (size_t layer = kStepFirstSparse; layer < dense.size(); ++layer) dense[layer] = false;
    return dense;
  }
  std::vector<int64_t> sparse;
  if (fields.IsList("moe_layers_enum")) {
    sparse = fields.IntListOr("moe_layers_enum", 0, kMaxLayers - 1, kMaxLayers);
  } else {
    const std::string text = fields.TextOr("moe_layers_enum", "");
    const std::vector<std::string> items = absl::StrSplit(text, ',', absl::SkipWhitespace());
    for (const std::string& item : items) {
      int64_t layer = 0;
      if (!absl::SimpleAtoi(item, &layer) || layer < 0) fields.Fail("moe_layers_enum is not a list of layers");
      sparse.push_back(layer);
    }
  }
  for (const int64_t layer : sparse) {
    if (layer >= 0 && layer < num_layers) dense[static_cast<size_t>(layer)] = false;
  }
  return dense;
}

std::vector<bool> StepDenseLayers(JsonFields& fields, const ModelConfig& config) {
  const std::vector<std::string> types = fields.TextListOr("mlp_layer_types", kMaxLayers);
  if (types.empty()) return PublishedDenseLayers(fields, config.num_layers);
  std::vector<bool> dense;
  if (!CheckStepList(fields, "mlp_layer_types", types.size(), config)) return dense;
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    const std::string& type = types[static_cast<size_t>(layer)];
    dense.push_back(type == "dense");
    if (dense.back() || type == "sparse") continue;
    fields.Fail(absl::StrCat("mlp_layer_types[", layer, "] is '", type.substr(0, 32), "'; known: dense, sparse"));
  }
  return dense;
}

// Null and 0 stand for none.
std::vector<float> StepLimits(JsonFields& fields, const char* name, const ModelConfig& config) {
  const std::vector<double> given = fields.NumberOrNullListOr(name, 0.0, 1e6, kMaxLayers, 0.0);
  if (given.empty() || !CheckStepList(fields, name, given.size(), config)) return {};
  const std::vector<float> limits(given.begin(), given.begin() + config.num_layers);
  const bool any = std::any_of(limits.begin(), limits.end(), [](float limit) { return limit > 0.0F; });
  return any ? limits : std::vector<float>();
}

// What the first of the layers that predict further tokens has: entries of the published lists behind those of the
// model's layers, or transformers' lists of its own. Its head is its own, and it reads rows before the final norm.
// Source: vLLM, model step3p5_mtp; llama.cpp, src/models/step35.cpp.
void SetStepPredictor(JsonFields& fields, const std::vector<bool>& sliding, ModelConfig* config) {
  PredictorSpec& predictor = config->predictor;
  predictor.own_head = predictor.unnormed = true;
  const auto num_layers = static_cast<size_t>(config->num_layers);
  const auto type_of = [&](const char* list, const char* own) {
    const std::vector<std::string> types = fields.TextListOr(list, kMaxLayers);
    const std::vector<std::string> owns = fields.TextListOr(own, kMaxLayers);
    return types.size() > num_layers ? types[num_layers] : owns.empty() ? std::string() : owns.front();
  };
  const auto limit_of = [&](const char* list) {
    const std::vector<double> limits = fields.NumberOrNullListOr(list, 0.0, 1e6, kMaxLayers, 0.0);
    return limits.size() > num_layers ? static_cast<float>(limits[num_layers]) : 0.0F;
  };
  predictor.mlp_limit = limit_of("swiglu_limits_shared");
  predictor.expert_limit = limit_of("swiglu_limits");
  const std::string mlp = type_of("mlp_layer_types", "mtp_mlp_layer_types");
  const bool listed = fields.Has("moe_layers_enum") && !PublishedDenseLayers(fields, config->num_layers + 1).back();
  predictor.dense = mlp.empty() ? !listed : mlp == "dense";
  const std::string attention = type_of("layer_types", "mtp_layer_types");
  const bool slides = attention == "sliding_attention";
  const auto like = std::find(sliding.begin(), sliding.end(), slides);
  if (like == sliding.end() || !(slides || attention == "full_attention")) return;
  predictor.like_layer = static_cast<int32_t>(like - sliding.begin());
}

void SetStepExperts(JsonFields& fields, ModelConfig* config) {
  const char* chosen = EitherName(fields, "num_experts_per_tok", "moe_top_k");
  ParseExperts(fields,
               {.num_experts = 288,
                .num_chosen = 8,
                .width = "moe_intermediate_size",
                .default_width = 1280,
                .chosen_field = chosen,
                .count_field =
                    EitherName(fields, EitherName(fields, "n_routed_experts", "num_local_experts"), "moe_num_experts")},
               config);
  RefuseOtherThan(fields, "moe_router_activation", "sigmoid");
  ParseGroupedRouting(
      fields,
      {.scale_field = "moe_router_scaling_factor", .normalized_field = "norm_expert_weight", .chosen_field = chosen},
      config);
  config->experts.shared_ffn_dim = static_cast<int32_t>(
      fields.IntOr(EitherName(fields, "share_expert_dim", "share_expert_dims"), 1, kMaxFfnDim, 1280));
  config->experts.dense_layers = StepDenseLayers(fields, *config);
  config->experts.limits = StepLimits(fields, "swiglu_limits", *config);
  config->mlp.limits = StepLimits(fields, "swiglu_limits_shared", *config);
}

// What published configs may say otherwise, and transformers has no field for.
void RefuseOtherSteps(JsonFields& fields) {
  RefuseUnsupported(fields, {"attention_bias", "mlp_bias", "sink"});
  for (const char* name :
       {"use_head_wise_attn_gate", "use_qk_norm", "zero_centered", "use_moe", "use_moe_router_bias"}) {
    if (!fields.BoolOr(name, true)) fields.Fail(absl::StrCat(name, " is false, which is not supported"));
  }
  if (!fields.IntListOr("use_rope_layers", 0, kMaxLayers, kMaxLayers).empty()) {
    fields.Fail("use_rope_layers is not empty, which is not supported");
  }
  const std::vector<std::string> scaled = fields.TextListOr("yarn_only_types", kMaxLayers);
  if (!scaled.empty() && scaled != std::vector<std::string>{"full_attention"}) {
    fields.Fail("yarn_only_types is not full_attention alone, which is not supported");
  }
}

void ParseStep(JsonFields& fields, ModelConfig* config) {
  SetSizes(fields, kStepContext, config, 11264);
  const int64_t num_heads = fields.IntOr("num_attention_heads", 1, kMaxHeads, 64);
  const int64_t num_kv_heads =
      fields.IntOr(EitherName(fields, "num_key_value_heads", "num_attention_groups"), 1, kMaxHeads, 8);
  const int64_t head_dim = fields.IntOr("head_dim", 1, kMaxHeadDim, 128);
  SetHeads(fields, num_heads, num_kv_heads, head_dim, config);
  RefuseOtherSteps(fields);
  AttentionSpec& attention = config->attention;
  attention.scale = static_cast<float>(
      1.0 / std::sqrt(fields.NumberOr("query_pre_attn_scalar", 1e-6, 1e6, static_cast<double>(head_dim))));
  attention.qk_norm = attention.output_gate = attention.head_gate = true;
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, 1e-5));
  config->norm.weight_offset = 1.0F;
  config->mlp.activation = ParseActivation(fields, "hidden_act", "silu");
  config->mlp.gated = true;
  config->head.tied = fields.BoolOr("tie_word_embeddings", false);
  if (!fields.status().ok()) return;
  const std::vector<bool> sliding = StepSlidingLayers(fields, config);
  SetStepHeads(fields, sliding, config);
  if (fields.status().ok()) SetStepRotations(fields, sliding, config);
  if (fields.status().ok()) SetStepExperts(fields, config);
  if (fields.status().ok()) SetStepPredictor(fields, sliding, config);
}

using enum WeightSlot;
using enum FusedPart;

// Experts are stacked.
constexpr WeightName kStepOthers[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_norm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_norm"},
    {kAttentionGate, kAll, "layers.#.self_attn.g_proj"},
    {kRouter, kExperts, "layers.#.moe.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.moe.router_bias", .weight = ""},
    {kExpertUp, kGate, "layers.#.moe.gate_proj.@"},
    {kExpertUp, kUp, "layers.#.moe.up_proj.@"},
    {kExpertDown, kAll, "layers.#.moe.down_proj.@"},
    {kSharedUp, kGate, "layers.#.share_expert.gate_proj"},
    {kSharedUp, kUp, "layers.#.share_expert.up_proj"},
    {kSharedDown, kAll, "layers.#.share_expert.down_proj"},
};
constexpr auto kStepWeights = WithNorms(kStepOthers);

// Experts are where a layer has a router.
void WriteGgufStepExperts(GgufConfigWriter* config) {
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  (*config)["share_expert_dim"] = config->Required("expert_shared_feed_forward_length", 1, kMaxFfnDim);
  config->CopyOr("expert_weights_scale", "moe_router_scaling_factor", 1.0);
  (*config)["norm_expert_weight"] = false;
  config->CopyFlag("expert_weights_norm", "norm_expert_weight");
  RequireGgufSigmoidGating(config);
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const bool sparse = config->HasTensor(absl::StrCat("blk.", layer, ".ffn_gate_inp.weight"));
    (*config)["mlp_layer_types"].push_back(sparse ? "sparse" : "dense");
  }
  (*config)["swiglu_limits"] = config->NumbersOfLayers("swiglu_clamp_exp");
  (*config)["swiglu_limits_shared"] = config->NumbersOfLayers("swiglu_clamp_shexp");
}

// Full layers rotate half of what the file says. Source: llama.cpp, src/models/step35.cpp.
void WriteGgufStep(GgufConfigWriter* config) {
  const std::vector<bool> sliding = config->SlidingLayers(kStepFullEvery, true);
  RequireGgufWindow(config);
  if (!config->fields().status().ok()) return;
  config->WriteWindows("sliding_window", kStepFullEvery, true);
  (*config)["num_attention_heads"] = GgufHeadsOfKind(config, "attention.head_count", sliding, false);
  (*config)["num_sliding_attention_heads"] = GgufHeadsOfKind(config, "attention.head_count", sliding, true);
  const std::vector<bool> alike(sliding.size());
  (*config)["num_key_value_heads"] = GgufHeadsOfKind(config, "attention.head_count_kv", alike, false);
  GgufConfigWriter::Json full = GgufConfigWriter::Json::object();
  if ((*config)["rope_scaling"].is_object()) full = (*config)["rope_scaling"];
  full["rope_theta"] = (*config)["rope_theta"];
  full["partial_rotary_factor"] = 0.5;
  (*config)["rope_parameters"]["full_attention"] = full;
  (*config)["rope_parameters"]["sliding_attention"]["rope_theta"] =
      config->fields().Number(config->Key("rope.freq_base_swa")).value_or(kGgufLocalTheta);
  WriteGgufStepExperts(config);
}

constexpr GgufForm kStepGguf[] = {{.name = "step35",
                                   .weights = gguf_names::kGatedHeads,
                                   .write_fields = &WriteGgufStep,
                                   .offset_norms = true,
                                   .experts = true,
                                   .layer_heads = true}};

constexpr const char* kStepTypes[] = {"step3p5"};
constexpr const char* kStepOuter[] = {"step3p7"};

}  // namespace

extern const Architecture kStep = {.name = "step3p5",
                                   .model_types = kStepTypes,
                                   .parse_config = &ParseStep,
                                   .names = {kLlamaPrefixes, kStepWeights, kLlamaBuffers, kTextPartAliases},
                                   .gguf = kStepGguf,
                                   .multimodal_types = kStepOuter};

}  // namespace dunlin::engine
