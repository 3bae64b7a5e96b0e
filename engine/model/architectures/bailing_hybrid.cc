// SPDX-License-Identifier: Apache-2.0
// Ling 3 (bailing_hybrid): Kimi's gated delta nets with decays that have a bound and whole matrices of gates, latent
// attention of DeepSeek V3 with a gate of each head in the last layer of each group, and DeepSeek V3's experts.
// Source: transformers 5.23, models/bailing_hybrid; the names of published files are those of its conversion_mapping.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/deepseek_family.h"
#include "engine/model/architectures/delta_fields.h"
#include "engine/model/architectures/mamba_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kMaxBailingRows = 1 << 20;  // of a delta net's input projection

// Sizes are those of fields of their own where transformers has saved the config, which gives head_dim another meaning.
// Decays: bound * sigmoid(...), or of any size without a safe gate.
void ParseBailingDelta(JsonFields& fields, ModelConfig* config) {
  const char* dim_field = EitherName(fields, "linear_head_dim", "head_dim");
  const auto head_dim = static_cast<int32_t>(fields.IntOr(dim_field, 1, kMaxHeadDim, 128));
  const auto num_heads =
      static_cast<int32_t>(fields.IntOr("linear_num_heads", 1, kMaxHeads, config->attention.num_heads));
  const char* taps_field = EitherName(fields, "linear_conv_kernel_dim", "short_conv_kernel_size");
  DeltaSpec& delta = config->delta;
  delta.shape = {.key_heads = num_heads, .value_heads = num_heads, .key_dim = head_dim, .value_dim = head_dim};
  delta.conv_taps = static_cast<int32_t>(fields.IntOr(taps_field, 2, kernels::kConvTapsMax, 4));
  delta.channel_decays = true;
  const auto bound = static_cast<float>(fields.NumberOr("kda_lower_bound", -80.0, -1e-3, -5.0));
  if (fields.BoolOr("kda_safe_gate", true)) delta.decay_bound = bound;
  const int64_t rows = int64_t{delta.input_features()};
  if (fields.status().ok() && rows > kMaxBailingRows) {
    fields.Fail(absl::StrCat("the heads of linear attention take ", rows, " rows; limit is ", kMaxBailingRows));
  }
}

// layer_types, or else the last layer of each group attends.
void ParseBailingLayers(JsonFields& fields, ModelConfig* config) {
  const int64_t group = fields.IntOr("layer_group_size", 1, kMaxLayers, 6);
  const std::string letters = ParseLayerLetters(fields, "M*");
  if (!fields.status().ok()) return;
  SetDeltaMixers(fields, letters.empty() ? IntervalLetters(config->num_layers, group) : letters,
                 "layer_types, layer_group_size", config);
}

void ParseBailingExperts(JsonFields& fields, ModelConfig* config) {
  const char* chosen = EitherName(fields, "num_experts_per_tok", "num_experts_per_token");
  ParseExperts(fields,
               {.num_experts = 512,
                .num_chosen = 8,
                .width = "moe_intermediate_size",
                .default_width = 768,
                .chosen_field = chosen},
               config);
  ParseSharedExperts(fields, EitherName(fields, "num_shared_experts", "n_shared_experts"), 1, config);
  ParseDenseLayers(fields, 2, config);
  RefuseOtherThan(fields, "score_function", "sigmoid");
  ParseGroupedRouting(fields,
                      {.num_groups = 8,
                       .chosen_groups = 4,
                       .scale = 2.5,
                       .groups_field = EitherName(fields, "n_group", "num_expert_group"),
                       .normalized_field = EitherName(fields, "norm_topk_prob", "moe_renormalize"),
                       .chosen_field = chosen},
                      config);
}

// Ling 2.5 and 2.6 share the model_type, but their linear layers have fixed decays.
void RefuseLightning(JsonFields& fields) {
  constexpr size_t kMaxClasses = 16;
  for (const std::string& name : fields.TextListOr("architectures", kMaxClasses)) {
    if (name == "BailingMoeV2_5ForCausalLM") {
      return fields.Fail("architectures names BailingMoeV2_5ForCausalLM, whose linear attention is not supported");
    }
  }
}

void ParseBailingHybrid(JsonFields& fields, ModelConfig* config) {
  RefuseLightning(fields);
  ParseDeepseekFamily(fields,
                      {.max_context = 262144,
                       .context_field = EitherName(fields, "max_position_embeddings", "model_max_length"),
                       .query_rank = 0,
                       .ignores_share = true,
                       .rope_theta = 6e6},
                      config);
  RefuseOtherThan(fields, "hidden_act", "silu");  // of the convolutions, too
  RefuseUnsupported(fields, {"attention_bias", "use_bias", "use_qkv_bias"});
  if (!fields.status().ok()) return;
  config->rotary.interleaved = true;
  config->attention.output_gate = config->attention.head_gate = true;
  ParseBailingDelta(fields, config);
  ParseBailingLayers(fields, config);
  ParseBailingExperts(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kBailingWeights[] = {
    {kEmbedding, kAll, "word_embeddings"},
    {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQueryDown, kAll, "layers.#.attention.q_a_proj"},
    {kQueryDownNorm, kAll, "layers.#.attention.q_a_layernorm"},
    {kLatentQuery, kAll, "layers.#.attention.q_b_proj"},
    {kKvDown, kLatentAndRotary, "layers.#.attention.kv_a_proj_with_mqa"},
    {kKvDownNorm, kAll, "layers.#.attention.kv_a_layernorm"},
    {kKeyUp, kAll, "layers.#.attention.kv_b_proj.@.key", true, true},
    {kValueUp, kAll, "layers.#.attention.kv_b_proj.@.value"},
    {kAttentionGate, kAll, "layers.#.attention.g_proj"},
    {kAttentionOut, kAll, "layers.#.attention.dense"},
    {kDeltaIn, kDeltaQuery, "layers.#.attention.q_proj"},
    {kDeltaIn, kDeltaKey, "layers.#.attention.k_proj"},
    {kDeltaIn, kDeltaValue, "layers.#.attention.v_proj"},
    {kDeltaIn, kDeltaZ, "layers.#.attention.g_proj"},
    {kDeltaConv, kDeltaQuery, "layers.#.attention.q_conv1d"},
    {kDeltaConv, kDeltaKey, "layers.#.attention.k_conv1d"},
    {kDeltaConv, kDeltaValue, "layers.#.attention.v_conv1d"},
    {kDeltaGates, kBeta, "layers.#.attention.b_proj"},
    {kDeltaDecay, kAll, "layers.#.attention.f_proj"},
    {.slot = kDeltaRate, .part = kAll, .name = "layers.#.attention.A_log", .weight = ""},
    {.slot = kDeltaTimeBias, .part = kAll, .name = "layers.#.attention.dt_bias", .weight = ""},
    {kDeltaNorm, kAll, "layers.#.attention.o_norm"},
    {kDeltaOut, kAll, "layers.#.attention.dense"},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpUp, kGate, "layers.#.mlp.gate_proj"},
    {kMlpUp, kUp, "layers.#.mlp.up_proj"},
    {kMlpDown, kAll, "layers.#.mlp.down_proj"},
    {kRouter, kExperts, "layers.#.mlp.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.mlp.gate.expert_bias", .weight = ""},
    {kExpertUp, kGate, "layers.#.mlp.experts.@.gate_proj"},
    {kExpertUp, kUp, "layers.#.mlp.experts.@.up_proj"},
    {kExpertDown, kAll, "layers.#.mlp.experts.@.down_proj"},
    {kSharedUp, kGate, "layers.#.mlp.shared_experts.gate_proj"},
    {kSharedUp, kUp, "layers.#.mlp.shared_experts.up_proj"},
    {kSharedDown, kAll, "layers.#.mlp.shared_experts.down_proj"},
    {kFinalNorm, kAll, "norm"},
    {kHead, kAll, "lm_head", false},
};
// Without a rank of the queries their one projection has another name, and so has the output of published delta nets.
constexpr NameAlias kBailingAliases[] = {{"q_b_proj", "q_proj"}, {"attention.dense", "attention.o_proj"}};
constexpr const char* kBailingTypes[] = {"bailing_hybrid"};

}  // namespace

extern const Architecture kBailingHybrid = {.name = "bailing_hybrid",
                                            .model_types = kBailingTypes,
                                            .parse_config = &ParseBailingHybrid,
                                            .names = {kLlamaPrefixes, kBailingWeights, kLlamaBuffers, kBailingAliases}};

}  // namespace dunlin::engine
