// SPDX-License-Identifier: Apache-2.0
// Solar Open: GLM 4.5's experts in every layer, heads that rotate whole, without norms of Q and K.
// Source: transformers 5.23, models/solar_open.
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kDefaultWidth = 1280;
constexpr LlamaDefaults kSolarOpenDefaults = {.max_context = 131072,
                                              .head_dim = 128,
                                              .ffn_dim = kDefaultWidth,
                                              .norm_epsilon = 1e-5,
                                              .rotary = {.partial = true, .default_theta = 1e6}};

// There is no dense MLP, whatever intermediate_size says.
void ParseSolarOpen(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kSolarOpenDefaults, config);
  config->attention.qkv_bias = fields.BoolOr("attention_bias", false);
  ParseExperts(fields,
               {.num_experts = 128, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = kDefaultWidth},
               config);
  ParseGroupedRouting(fields, {}, config);
  ParseSharedExperts(fields, "n_shared_experts", 1, config);
  config->mlp.ffn_dim = config->experts.ffn_dim;
}

constexpr auto kSolarOpenWeights = WithNorms(kLlamaNorms, kLlamaExperts, kDeepseekExperts);
constexpr const char* kSolarOpenTypes[] = {"solar_open"};

}  // namespace

// Its GGUF files are GLM 4.5's (glm4moe).
extern const Architecture kSolarOpen = {.name = "solar_open",
                                        .model_types = kSolarOpenTypes,
                                        .parse_config = &ParseSolarOpen,
                                        .names = {kLlamaPrefixes, kSolarOpenWeights, kLlamaBuffers}};

}  // namespace dunlin::engine
