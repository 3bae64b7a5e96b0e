// SPDX-License-Identifier: Apache-2.0
// AFMoE (Trinity): norms before and after each term, a norm over each head of Q and K, gated attention outputs, full
// layers without positions among sliding ones, and experts chosen by sigmoids with a correction, shared ones besides,
// in all but the first layers. Source: transformers 5.24, models/afmoe.
#include <cmath>
#include <vector>

#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kAfmoeDefaults = {.max_context = 16384, .head_dim = 128, .ffn_dim = 6144, .norm_epsilon = 1e-5};

void ParseAfmoeExperts(JsonFields& fields, ModelConfig* config) {
  ParseExperts(fields, {.num_experts = 64, .num_chosen = 6, .width = "moe_intermediate_size", .default_width = 1408},
               config);
  RefuseOtherThan(fields, "score_func", "sigmoid");
  ParseGroupedRouting(fields, {.scale_field = "route_scale", .normalized_field = "route_norm"}, config);
  ParseSharedExperts(fields, "num_shared_experts", 2, config);
  const int64_t num_dense = fields.IntOr("num_dense_layers", 0, kMaxLayers, 1);
  for (int32_t layer = 0; layer < config->num_layers; ++layer) {
    config->experts.dense_layers.push_back(layer < num_dense);
  }
}

void ParseAfmoe(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kAfmoeDefaults, config);
  config->norm.placement = NormPlacement::kPreAndPost;
  config->attention.output_gate = config->attention.qk_norm = true;
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  if (fields.BoolOr("mup_enabled", false)) {
    config->embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_dim)));
  }
  const int64_t interval = fields.IntOr("global_attn_every_n_layers", 1, kMaxLayers, 4);
  const int64_t window = fields.IntOr("sliding_window", 1, kMaxContextTokens, 1024);
  ParseAfmoeExperts(fields, config);
  for (const bool slides : SetWindows(fields, window, {.full_every = interval}, config)) {
    config->rotary.layer_index.push_back(slides ? 0 : -1);
  }
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kAfmoeOthers[] = {
    {kAttentionGate, kAll, "layers.#.self_attn.gate_proj"},
    {kQueryNorm, kAll, "layers.#.self_attn.q_norm"},
    {kKeyNorm, kAll, "layers.#.self_attn.k_norm"},
    {kPostAttentionNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpNorm, kAll, "layers.#.pre_mlp_layernorm"},
    {kPostMlpNorm, kAll, "layers.#.post_mlp_layernorm"},
    {kRouter, kExperts, "layers.#.mlp.router.gate"},
    {.slot = kRouterCorrection, .part = kAll, .name = "layers.#.mlp.expert_bias", .weight = ""},
    {kExpertUp, kGate, "layers.#.mlp.experts.@.gate_proj"},
    {kExpertUp, kUp, "layers.#.mlp.experts.@.up_proj"},
    {kExpertDown, kAll, "layers.#.mlp.experts.@.down_proj"},
    {kSharedUp, kGate, "layers.#.mlp.shared_experts.gate_proj"},
    {kSharedUp, kUp, "layers.#.mlp.shared_experts.up_proj"},
    {kSharedDown, kAll, "layers.#.mlp.shared_experts.down_proj"},
};
constexpr auto kAfmoeWeights = WithNorms(kAfmoeOthers);
constexpr const char* kAfmoeTypes[] = {"afmoe"};

// Files say neither which layers are full nor that embeddings are scaled: both are the published models'.
void WriteGgufAfmoe(GgufConfigWriter* config) {
  RequireGgufSigmoidGating(config);
  RequireGgufWindow(config);
  WriteGgufRouting(config, 1, 1);
  (*config)["sliding_window"] = config->Window();
  (*config)["mup_enabled"] = true;
  config->Copy("leading_dense_block_count", "num_dense_layers");
  config->Copy("expert_shared_count", "num_shared_experts");
  config->CopyOr("expert_weights_scale", "route_scale", 1.0);
  (*config)["route_norm"] = false;
  config->CopyFlag("expert_weights_norm", "route_norm");
}

constexpr GgufForm kAfmoeGguf[] = {
    {.name = "afmoe", .weights = gguf_names::kGatedHeads, .write_fields = &WriteGgufAfmoe, .experts = true}};

}  // namespace

extern const Architecture kAfmoe = {.name = "afmoe",
                                    .model_types = kAfmoeTypes,
                                    .parse_config = &ParseAfmoe,
                                    .names = {kLlamaPrefixes, kAfmoeWeights, kLlamaBuffers},
                                    .gguf = kAfmoeGguf};

}  // namespace dunlin::engine
