// SPDX-License-Identifier: Apache-2.0
// Apertus: Llama with a norm over each head of Q and K, and a plain MLP of xIELU, whose four numbers each layer has.
// Source: transformers 5.23, models/apertus.
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kApertusContext = 65536;

// transformers rotates by llama3's scaling where a config has no parameters of the rotation; all published ones have.
void RequireRotation(JsonFields& fields) {
  if (!fields.Has("rope_parameters") && !fields.Has("rope_scaling")) fields.Fail("rope_parameters is missing");
}

void ParseApertus(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields,
                   {.max_context = kApertusContext,
                    .ffn_dim = 14336,
                    .activation_field = nullptr,
                    .norm_epsilon = 1e-5,
                    .rotary = {.default_theta = 12e6}},
                   config);
  RefuseOtherThan(fields, "hidden_act", "xielu");
  RequireRotation(fields);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
  config->mlp.gated = false;
  config->mlp.learned_curve = true;
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kApertusWeights[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.attention_layernorm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"},
    {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_norm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_norm"},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj"},
    {kMlpNorm, kAll, "layers.#.feedforward_layernorm"},
    {kMlpUp, kAll, "layers.#.mlp.up_proj"},
    {kMlpDown, kAll, "layers.#.mlp.down_proj"},
    {.slot = kMlpCurve, .part = kCurvePositive, .name = "layers.#.mlp.act_fn.alpha_p", .weight = ""},
    {.slot = kMlpCurve, .part = kCurveNegative, .name = "layers.#.mlp.act_fn.alpha_n", .weight = ""},
    {.slot = kMlpCurve, .part = kCurveBeta, .name = "layers.#.mlp.act_fn.beta", .weight = ""},
    {.slot = kMlpCurve, .part = kCurveEpsilon, .name = "layers.#.mlp.act_fn.eps", .weight = ""},
    {kFinalNorm, kAll, "norm"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kApertusTypes[] = {"apertus"};

}  // namespace

extern const Architecture kApertus = {.name = "apertus",
                                      .model_types = kApertusTypes,
                                      .parse_config = &ParseApertus,
                                      .names = {kLlamaPrefixes, kApertusWeights, kLlamaBuffers}};

}  // namespace dunlin::engine
