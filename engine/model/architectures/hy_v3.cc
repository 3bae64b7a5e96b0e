// SPDX-License-Identifier: Apache-2.0
// Hunyuan 3: Llama with a norm over each head of Q and K, and experts chosen by sigmoids with a correction, a shared
// one besides, in all but the first layers. The layer behind the last that predicts further tokens is not served.
// Source: transformers 5.23, models/hy_v3.
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kHyV3Defaults = {
    .max_context = 131072, .head_dim = 128, .norm_epsilon = 1e-5, .rotary = {.default_theta = 11158840.0}};

void ParseHyV3(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kHyV3Defaults, config);
  RefuseUnsupported(fields, {"mlp_bias"});
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
  ParseExperts(fields, {.num_experts = 192, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 1536},
               config);
  ParseGroupedRouting(fields, {.scale = 2.826, .scale_field = "router_scaling_factor"}, config);
  ParseSharedExperts(fields, "num_shared_experts", 1, config);
  ParseDenseLayers(fields, 1, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kHyV3Router[] = {
    {kRouter, kExperts, "layers.#.mlp.router.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.mlp.expert_bias", .weight = ""},
};
constexpr auto kHyV3Weights = WithNorms(kLlamaQkNorms, kHyV3Router, kHunyuanExperts);
constexpr const char* kHyV3Types[] = {"hy_v3"};

}  // namespace

extern const Architecture kHyV3 = {.name = "hy_v3",
                                   .model_types = kHyV3Types,
                                   .parse_config = &ParseHyV3,
                                   .names = {kLlamaPrefixes, kHyV3Weights, kLlamaBuffers}};

}  // namespace dunlin::engine
