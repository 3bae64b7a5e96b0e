// SPDX-License-Identifier: Apache-2.0
// OLMoE: Llama with one norm over all heads of Q and one over those of K, and experts in every layer.
// Source: transformers 5.23, models/olmoe.
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kOlmoeDefaults = {.max_context = 4096, .norm_epsilon = 1e-5};

void ParseOlmoe(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kOlmoeDefaults, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = config->attention.qk_norm_joint = true;
  if (fields.Has("clip_qkv")) fields.Fail("clip_qkv is set, which is not supported; must be null");
  ParseExperts(fields, {.num_experts = 64, .num_chosen = 8}, config);
  config->experts.routing.normalized = fields.BoolOr("norm_topk_prob", false);
}

constexpr auto kOlmoeWeights = WithNorms(kLlamaQkNorms, kLlamaExperts);
constexpr const char* kOlmoeTypes[] = {"olmoe"};

constexpr GgufForm kOlmoeGguf[] = {{.name = "olmoe", .experts = true}};

}  // namespace

extern const Architecture kOlmoe = {.name = "olmoe",
                                    .model_types = kOlmoeTypes,
                                    .parse_config = &ParseOlmoe,
                                    .names = {kLlamaPrefixes, kOlmoeWeights, kLlamaBuffers},
                                    .gguf = kOlmoeGguf};

}  // namespace dunlin::engine
