// SPDX-License-Identifier: Apache-2.0
// OLMo Hybrid: gated delta nets with a norm before each term, whose states may change sign, and every few layers OLMo
// 3's attention, with norms after the terms and mostly without positions. Source: transformers 5.23,
// models/olmo_hybrid.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/delta_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kHybridContext = 65536;
constexpr float kHybridDeltaEpsilon = 1e-5F;  // of the delta nets' norms, whatever rms_norm_eps says

// Published models have no positions: their rope_parameters, or the rope_theta in there, are null.
bool HasPositions(JsonFields& fields) {
  const nlohmann::json* parameters = fields.Object("rope_parameters");
  if (parameters == nullptr) {
    const bool is_null = fields.Mentions("rope_parameters") || fields.Mentions("rope_theta");
    return fields.Has("rope_theta") || !is_null;
  }
  const JsonFields rope(*parameters, fields.where());
  return rope.Has("rope_theta") || !rope.Mentions("rope_theta");
}

void ParseOlmoHybrid(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = kHybridContext, .ffn_dim = 11008}, config);
  RefuseOtherThan(fields, "hidden_act", "silu");  // of the convolutions, too
  AttentionSpec& attention = config->attention;
  attention.qkv_bias = attention.out_bias = fields.BoolOr("attention_bias", false);
  attention.qk_norm = attention.qk_norm_joint = true;
  if (!HasPositions(fields)) config->rotary = {};
  if (!fields.status().ok()) return;
  const int64_t heads = attention.num_heads;
  const int64_t key_heads = std::max<int64_t>(fields.IntOr("linear_num_key_heads", 1, kMaxHeads, heads), 1);
  const int64_t key_dim = config->hidden_dim * int64_t{3} / (4 * key_heads);
  const int64_t given_dim = fields.IntOr("linear_key_head_dim", 1, kMaxHeadDim, key_dim);
  ParseDelta(fields, {.key_heads = heads, .value_heads = heads, .key_dim = key_dim, .value_dim = 2 * given_dim},
             config);
  config->delta.signed_states = fields.BoolOr("linear_allow_neg_eigval", true);
  config->delta.norm_epsilon = kHybridDeltaEpsilon;
  ParseDeltaLayers(fields, config);
  config->norm.placement = NormPlacement::kPostInside;
  for (const MixerKind mixer : config->mixers) config->norm.pre_layers.push_back(mixer == MixerKind::kDelta);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kHybridNames[] = {
    {kPostAttentionNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kPostMlpNorm, kAll, "layers.#.post_feedforward_layernorm"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_norm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_norm"},
    {kDeltaIn, kDeltaQuery, "layers.#.linear_attn.q_proj"},
    {kDeltaIn, kDeltaKey, "layers.#.linear_attn.k_proj"},
    {kDeltaIn, kDeltaValue, "layers.#.linear_attn.v_proj"},
    {kDeltaIn, kDeltaZ, "layers.#.linear_attn.g_proj"},
    {kDeltaConv, kDeltaQuery, "layers.#.linear_attn.q_conv1d"},
    {kDeltaConv, kDeltaKey, "layers.#.linear_attn.k_conv1d"},
    {kDeltaConv, kDeltaValue, "layers.#.linear_attn.v_conv1d"},
    {kDeltaGates, kBeta, "layers.#.linear_attn.b_proj"},
    {kDeltaGates, kAlpha, "layers.#.linear_attn.a_proj"},
    {.slot = kDeltaRate, .part = kAll, .name = "layers.#.linear_attn.A_log", .weight = ""},
    {.slot = kDeltaTimeBias, .part = kAll, .name = "layers.#.linear_attn.dt_bias", .weight = ""},
    {kDeltaNorm, kAll, "layers.#.linear_attn.o_norm"},
    {kDeltaOut, kAll, "layers.#.linear_attn.o_proj"},
};
constexpr auto kHybridWeights = WithNorms(kHybridNames);
constexpr const char* kHybridTypes[] = {"olmo_hybrid"};
// The published names of the norms of delta nets.
constexpr NameAlias kHybridAliases[] = {
    {"input_layernorm", "attention_layer_norm"},
    {"post_attention_layernorm", "feedforward_layer_norm"},
};

}  // namespace

extern const Architecture kOlmoHybrid = {.name = "olmo_hybrid",
                                         .model_types = kHybridTypes,
                                         .parse_config = &ParseOlmoHybrid,
                                         .names = {kLlamaPrefixes, kHybridWeights, kLlamaBuffers, kHybridAliases}};

}  // namespace dunlin::engine
