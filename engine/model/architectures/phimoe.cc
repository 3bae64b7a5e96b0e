// SPDX-License-Identifier: Apache-2.0
// Phi 3.5 MoE and Phi mini MoE: Mixtral with LayerNorms, biases, and a router whose two weights are parts of softmaxes
// of the logits near the largest. Source: transformers 5.23, models/phimoe.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryFields kPhimoeRotary = {.default_theta = 1e6};

// longrope: cos and sin take a factor of the config, up to the original context short_mscale.
void SetRotationFactor(JsonFields& fields, ModelConfig* config) {
  const RotaryScaling scaling = ParseRotaryScaling(fields, kPhimoeRotary, config->max_context);
  if (!fields.status().ok() || scaling.kind == RotaryScalingKind::kNone) return;
  if (scaling.kind != RotaryScalingKind::kLongrope) {
    return fields.Fail("the rotation of phimoe is default or longrope; no other rope_type is supported");
  }
  const bool old_style = fields.Has("rope_scaling");
  const nlohmann::json* object = fields.Object(old_style ? "rope_scaling" : "rope_parameters");
  JsonFields rope(*object, fields.where());
  config->rotary.attention_factors = {static_cast<float>(rope.Number("short_mscale", 1e-3, 1e3))};
  fields.Adopt(rope.status());
}

void ParsePhimoe(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 131072, .ffn_dim = 6400, .norm_epsilon = 1e-5, .rotary = kPhimoeRotary},
                   config);
  if (fields.status().ok()) SetRotationFactor(fields, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.bias = true;
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->head.bias = fields.BoolOr("lm_head_bias", false);
  if (config->head.tied && config->head.bias)
    fields.Fail("lm_head_bias is true with a tied head, which is not supported");
  ParseExperts(fields, {.num_experts = 16, .num_chosen = 2, .default_width = 6400}, config);
  kernels::ExpertRouting& routing = config->experts.routing;
  if (fields.status().ok() && routing.num_chosen != 2) {
    return fields.Fail(absl::StrCat("num_experts_per_tok is ", routing.num_chosen, "; the router's rule is of 2"));
  }
  routing.scoring = kernels::ExpertScoring::kSoftmaxOfNear;
  routing.nearness = static_cast<float>(2.0 * fields.NumberOr("router_jitter_noise", 0.0, 1.0, 0.01));
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 0), {}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kPhimoeNames[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kRouter, kExperts, "layers.#.block_sparse_moe.gate"},
    {kExpertUp, kGate, "layers.#.block_sparse_moe.experts.@.w1"},
    {kExpertUp, kUp, "layers.#.block_sparse_moe.experts.@.w3"},
    {kExpertDown, kAll, "layers.#.block_sparse_moe.experts.@.w2"},
};
constexpr auto kPhimoeWeights = WithNorms(kPhimoeNames);
constexpr const char* kPhimoeTypes[] = {"phimoe"};

}  // namespace

extern const Architecture kPhimoe = {.name = "phimoe",
                                     .model_types = kPhimoeTypes,
                                     .parse_config = &ParsePhimoe,
                                     .names = {kLlamaPrefixes, kPhimoeWeights, kLlamaBuffers}};

}  // namespace dunlin::engine
