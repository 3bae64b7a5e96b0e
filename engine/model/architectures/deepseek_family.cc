// SPDX-License-Identifier: Apache-2.0
#include "engine/model/architectures/deepseek_family.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
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

// The rotation of a head's rotated part, which is rotated whole.
RotaryScaling ParseRotaryOfPart(JsonFields& fields, const DeepseekDefaults& defaults, double share,
                                const ModelConfig& config) {
  RotaryFields names = kDeepseekRotary;
  names.partial = defaults.names_share || defaults.ignores_share;
  names.default_theta = defaults.rope_theta;
  RotaryScaling scaling = ParseRotaryScaling(fields, names, config.max_context);
  const bool is_share = defaults.ignores_share || std::abs(scaling.partial_factor - share) <= 1e-6;
  if (scaling.partial_factor != 1.0 && !is_share) {
    fields.Fail(absl::StrCat("partial_rotary_factor is ", scaling.partial_factor,
                             "; must be the share of qk_rope_head_dim in a head, ", share));
  }
  scaling.partial_factor = 1.0;
  return scaling;
}

// A q_lora_rank of null: queries without a rank.
void ParseLatentAttention(JsonFields& fields, const DeepseekDefaults& defaults, ModelConfig* config) {
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, num_heads);
  const int64_t rope_dim = fields.IntOr("qk_rope_head_dim", 2, kMaxHeadDim / 2, 64);
  const int64_t kv_rank = fields.IntOr("kv_lora_rank", 1, kMaxHeadDim - rope_dim, defaults.kv_rank);
  const int64_t plain_dim = fields.IntOr("qk_nope_head_dim", 1, kMaxHeadDim, defaults.plain_dim);
  const int64_t value_dim = fields.IntOr("v_head_dim", 1, kMaxHeadDim, 128);
  const bool has_rank = fields.Has("q_lora_rank") || !fields.Mentions("q_lora_rank");
  const int64_t query_rank = has_rank ? fields.IntOr("q_lora_rank", 1, kMaxHiddenDim, defaults.query_rank) : 0;
  if (fields.status().ok() && rope_dim % 2 != 0) {
    fields.Fail(absl::StrCat("qk_rope_head_dim is ", rope_dim, "; rotary positions need an even one"));
  }
  if (fields.status().ok() && num_kv_heads != num_heads) {
    fields.Fail(absl::StrCat("num_key_value_heads is ", num_kv_heads, "; with latent attention it is the number of ",
                             num_heads, " heads"));
  }
  const double share = static_cast<double>(rope_dim) / static_cast<double>(plain_dim + rope_dim);
  const RotaryScaling scaling = ParseRotaryOfPart(fields, defaults, share, *config);
  // The frequencies are those of a head that is rotated whole.
  SetHeads(fields, num_heads, 1, rope_dim, config);
  SetRotary(fields, kDeepseekRotary, scaling, config);
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

}  // namespace

void ParseDeepseekFamily(JsonFields& fields, const DeepseekDefaults& defaults, ModelConfig* config) {
  SetSizes(fields, defaults.max_context, config, 0, defaults.context_field);
  RefuseUnsupported(fields, {"mlp_bias"});
  ParseLatentAttention(fields, defaults, config);
  config->norm.kind = kernels::NormKind::kRmsNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, defaults.norm_epsilon));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "silu");
  config->mlp.gated = true;
  config->head.tied = fields.BoolOr("tie_word_embeddings", defaults.tied_embeddings);
}

void ParseDeepseekExperts(JsonFields& fields, const ExpertDefaults& defaults, int64_t num_shared, int64_t num_dense,
                          ModelConfig* config) {
  ParseExperts(fields, defaults, config);
  ParseSharedExperts(fields, "n_shared_experts", num_shared, config);
  ParseDenseLayers(fields, num_dense, config);
  fields.IntOr("moe_layer_freq", 1, 1, 1);
}

}  // namespace dunlin::engine
