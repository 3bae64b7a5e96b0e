// SPDX-License-Identifier: Apache-2.0
// DeepSeek V2, V2 Lite, V3 and R1: multi-head latent attention, and experts with shared ones in all but the first
// layers. The layers behind the last that predict further tokens are not served. Source: transformers 5.23,
// models/deepseek_v2, models/deepseek_v3.
#include <algorithm>
#include <array>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryFields kDeepseekRotary = {};

// The factor of scores under YaRN, beside that of cosines and sines. Source: modeling_deepseek_v3.py,
// yarn_apply_mscale.
double ScoreFactor(const RotaryScaling& scaling) {
  if (scaling.kind != RotaryScalingKind::kYarn || scaling.mscale_all_dim == 0.0 || scaling.factor <= 1.0) return 1.0;
  const double mscale = 0.1 * scaling.mscale_all_dim * std::log(scaling.factor) + 1.0;
  return mscale * mscale;
}

// A q_lora_rank of null: queries without a rank.
void ParseLatentAttention(JsonFields& fields, ModelConfig* config) {
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, num_heads);
  const int64_t rope_dim = fields.IntOr("qk_rope_head_dim", 2, kMaxHeadDim / 2, 64);
  const int64_t kv_rank = fields.IntOr("kv_lora_rank", 1, kMaxHeadDim - rope_dim, 512);
  const int64_t plain_dim = fields.IntOr("qk_nope_head_dim", 1, kMaxHeadDim, 128);
  const int64_t value_dim = fields.IntOr("v_head_dim", 1, kMaxHeadDim, 128);
  const bool has_rank = fields.Has("q_lora_rank") || !fields.Mentions("q_lora_rank");
  const int64_t query_rank = has_rank ? fields.IntOr("q_lora_rank", 1, kMaxHiddenDim, 1536) : 0;
  if (fields.status().ok() && rope_dim % 2 != 0) {
    fields.Fail(absl::StrCat("qk_rope_head_dim is ", rope_dim, "; rotary positions need an even one"));
  }
  if (fields.status().ok() && num_kv_heads != num_heads) {
    fields.Fail(absl::StrCat("num_key_value_heads is ", num_kv_heads, "; with latent attention it is the number of ",
                             num_heads, " heads"));
  }
  const RotaryScaling scaling = ParseRotaryScaling(fields, kDeepseekRotary, config->max_context);
  // The frequencies are those of a head that is rotated whole.
  SetHeads(fields, num_heads, 1, rope_dim, config);
  SetRotary(fields, kDeepseekRotary, config);
  if (!fields.status().ok()) return;
  config->attention.latent = {.kv_rank = static_cast<int32_t>(kv_rank),
                              .query_rank = static_cast<int32_t>(query_rank),
                              .plain_dim = static_cast<int32_t>(plain_dim),
                              .rope_dim = static_cast<int32_t>(rope_dim),
                              .value_dim = static_cast<int32_t>(value_dim)};
  config->attention.head_dim = static_cast<int32_t>(rope_dim + kv_rank);
  config->attention.scale =
      static_cast<float>(ScoreFactor(scaling) / std::sqrt(static_cast<double>(plain_dim + rope_dim)));
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
}

struct Defaults {
  int64_t max_context;
  int64_t num_shared;
  int64_t first_sparse;
  ExpertDefaults experts;
};

void ParseDeepseekBoth(JsonFields& fields, const Defaults& defaults, ModelConfig* config) {
  SetSizes(fields, defaults.max_context, config);
  RefuseUnsupported(fields, {"mlp_bias"});
  ParseLatentAttention(fields, config);
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, 1e-6));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "silu");
  config->mlp.gated = true;
  config->head.tied = fields.BoolOr("tie_word_embeddings", false);
  ParseExperts(fields, defaults.experts, config);
  const int64_t shared =
      fields.IntOr("n_shared_experts", 1, kMaxFfnDim / std::max(config->experts.ffn_dim, 1), defaults.num_shared);
  config->experts.shared_ffn_dim = config->experts.ffn_dim * static_cast<int32_t>(shared);
  fields.IntOr("moe_layer_freq", 1, 1, 1);
  const int64_t first_sparse = fields.IntOr("first_k_dense_replace", 0, kMaxLayers, defaults.first_sparse);
  for (int32_t layer = 0; layer < config->num_layers; ++layer)
    config->experts.dense_layers.push_back(layer < first_sparse);
}

void ParseDeepseekV2(JsonFields& fields, ModelConfig* config) {
  fields.Int("num_experts_per_tok", 1, kMaxExperts);  // without a default in transformers
  ParseDeepseekBoth(
      fields,
      {.max_context = 2048,
       .num_shared = 2,
       .first_sparse = 0,
       .experts = {.num_experts = 64, .num_chosen = 1, .width = "moe_intermediate_size", .default_width = 1407}},
      config);
  RefuseUnsupported(fields, {"norm_topk_prob"});
  ParseGroupLimitedRouting(fields, config);
  config->rotary.interleaved = true;
}

void ParseDeepseekV3(JsonFields& fields, ModelConfig* config) {
  ParseDeepseekBoth(
      fields,
      {.max_context = 4096,
       .num_shared = 1,
       .first_sparse = 3,
       .experts = {.num_experts = 256, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 2048}},
      config);
  RefuseOtherThan(fields, "topk_method", "noaux_tc");
  ParseGroupedRouting(fields, {.num_groups = 8, .chosen_groups = 4, .scale = 2.5}, config);
  config->rotary.interleaved = fields.BoolOr("rope_interleave", true);
}

using enum WeightSlot;
using enum FusedPart;

// Without a rank of the queries their one projection has another name.
constexpr WeightName kDeepseekNames[] = {
    {kQueryDown, kAll, "layers.#.self_attn.q_a_proj"},
    {kQueryDownNorm, kAll, "layers.#.self_attn.q_a_layernorm"},
    {kLatentQuery, kAll, "layers.#.self_attn.q_b_proj"},
    {kKvDown, kLatentAndRotary, "layers.#.self_attn.kv_a_proj_with_mqa"},
    {kKvDownNorm, kAll, "layers.#.self_attn.kv_a_layernorm"},
    {kKeyUp, kAll, "layers.#.self_attn.kv_b_proj.@.key", true, true},
    {kValueUp, kAll, "layers.#.self_attn.kv_b_proj.@.value"},
};
// The family's names but those of Q, K and V.
constexpr auto kDeepseekWeights = [] {
  constexpr auto kFamily = WithNorms(kLlamaNorms, kDeepseekNames, kLlamaExperts, kDeepseekExperts);
  std::array<WeightName, kFamily.size() - 3> names{};
  std::copy_if(kFamily.begin(), kFamily.end(), names.begin(), [](const WeightName& name) { return name.slot != kQkv; });
  return names;
}();
constexpr NameAlias kDeepseekAliases[] = {{"q_b_proj", "q_proj"}};
constexpr const char* kV2Types[] = {"deepseek_v2"};
constexpr const char* kV3Types[] = {"deepseek_v3"};

void RefuseVariantsOfDeepseek2(GgufConfigWriter* config, bool sigmoid) {
  GgufFields& fields = config->fields();
  const std::string temperature = config->Key("attention.temperature_scale");
  if (fields.Number(temperature).value_or(0.0) != 0.0) {
    fields.Fail(temperature, "is not 0: scores scaled by position are not supported");
  }
  const int64_t first_sparse = config->Required("leading_dense_block_count", 0, kMaxLayers);
  config->Required("expert_shared_count", 1, kMaxFfnDim);
  if (sigmoid) return;
  RefuseGgufTensor(config, absl::StrCat("blk.", first_sparse, ".exp_probs_b.bias"),
                   "a correction of softmax scores (expert_gating_func is not 2)");
  const std::string norm = config->Key("expert_weights_norm");
  if (fields.Bool(norm).value_or(false)) fields.Fail(norm, "is true, which is not supported with softmax gating");
}

// Sigmoid gating is V3's, softmax V2's, as without the key. Files of older converters have no groups: those of the
// published models are told by the number of experts. No file has mscale, which is mscale_all_dim in every published
// config; the key has a tenth of that.
void WriteGgufDeepseek2(GgufConfigWriter* config) {
  constexpr int64_t kExpertsOfV2 = 160;
  constexpr int64_t kExpertsOfV3 = 256;
  GgufFields& fields = config->fields();
  const std::string gating = config->Key("expert_gating_func");
  const int64_t function = fields.Int(gating, 0, 255).value_or(0);
  const bool sigmoid = function == kGgufSigmoidGating;
  if (function > kGgufSigmoidGating) {
    fields.Fail(gating, absl::StrCat("is ", function, "; must be 1 (softmax) or 2 (sigmoid)"));
  }
  RefuseVariantsOfDeepseek2(config, sigmoid);
  const bool grouped = !fields.Has(config->Key("expert_group_count")) &&
                       config->Required("expert_count", 1, kMaxExperts) == (sigmoid ? kExpertsOfV3 : kExpertsOfV2);
  if (grouped) {
    WriteGgufRouting(config, 8, sigmoid ? 4 : 3);
  } else {
    WriteGgufRouting(config, 1, 1);
  }
  if (sigmoid) {
    (*config)["model_type"] = "deepseek_v3";
  } else {
    (*config)["topk_method"] = (*config)["n_group"] == 1 ? "greedy" : "group_limited_greedy";
  }
  GgufConfigWriter::Json& scaling = (*config)["rope_scaling"];
  const std::optional<double> tenth = fields.Number(config->Key("rope.scaling.yarn_log_multiplier"));
  if (scaling.is_object() && tenth.has_value()) scaling["mscale"] = scaling["mscale_all_dim"] = *tenth * 10.0;
}

constexpr GgufForm kDeepseekV2Gguf[] = {{.name = "deepseek2",
                                         .weights = gguf_names::kGatedLatentRows,
                                         .write_fields = &WriteGgufDeepseek2,
                                         .tensor = kGgufHeadRows,
                                         .experts = true,
                                         .latent_attention = true},
                                        {.name = "deepseek2",
                                         .weights = gguf_names::kGatedLatent,
                                         .write_fields = &WriteGgufDeepseek2,
                                         .experts = true,
                                         .latent_attention = true}};

}  // namespace

extern const Architecture kDeepseekV2 = {.name = "deepseek_v2",
                                         .model_types = kV2Types,
                                         .parse_config = &ParseDeepseekV2,
                                         .names = {kLlamaPrefixes, kDeepseekWeights, kLlamaBuffers, kDeepseekAliases},
                                         .gguf = kDeepseekV2Gguf};
extern const Architecture kDeepseekV3 = {.name = "deepseek_v3",
                                         .model_types = kV3Types,
                                         .parse_config = &ParseDeepseekV3,
                                         .names = {kLlamaPrefixes, kDeepseekWeights, kLlamaBuffers, kDeepseekAliases}};

}  // namespace dunlin::engine
