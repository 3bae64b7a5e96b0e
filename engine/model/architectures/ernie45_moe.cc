// SPDX-License-Identifier: Apache-2.0
// ERNIE 4.5 MoE: ERNIE 4.5 with experts in a range of its layers, chosen by softmax scores with a correction, and
// shared ones. Source: transformers 5.24, models/ernie4_5_moe.
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kErnieMoeDefaults = {.max_context = 131072,
                                             .ffn_dim = 12288,
                                             .tied_embeddings = true,
                                             .norm_epsilon = 1e-5,
                                             .rotary = {.default_theta = 500000.0}};

// moe_layer_start_index to moe_layer_end_index (-1: the last), every moe_layer_interval-th.
void ParseErnieLayers(JsonFields& fields, ModelConfig* config) {
  const int64_t interval = fields.IntOr("moe_layer_interval", 1, kMaxLayers, 1);
  const int64_t first = fields.IntOr("moe_layer_start_index", 0, kMaxLayers, 1);
  const int64_t last = fields.IntOr("moe_layer_end_index", -1, kMaxLayers, -1);
  for (int64_t layer = 0; layer < config->num_layers; ++layer) {
    const bool sparse = (layer + 1) % interval == 0 && layer >= first && (last == -1 || layer <= last);
    config->experts.dense_layers.push_back(!sparse);
  }
}

void ParseErnieMoe(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kErnieMoeDefaults, config);
  config->rotary.interleaved = true;
  RefuseUnsupported(fields, {"use_bias"});
  ParseExperts(fields,
               {.num_experts = 64,
                .num_chosen = 6,
                .width = "moe_intermediate_size",
                .default_width = 1536,
                .chosen_field = "moe_k",
                .count_field = "moe_num_experts"},
               config);
  config->experts.routing.normalized = true;
  config->experts.router_correction = true;
  if (fields.IntOr("moe_num_shared_experts", 0, kMaxFfnDim, 2) > 0) {
    ParseSharedExperts(fields, "moe_num_shared_experts", 2, config);
  }
  ParseErnieLayers(fields, config);
}

constexpr WeightName kErnieExperts[] = {
    {.slot = WeightSlot::kRouterCorrection,
     .part = FusedPart::kAll,
     .name = "layers.#.mlp.moe_statics.e_score_correction_bias",
     .weight = ""},
    {WeightSlot::kSharedUp, FusedPart::kGate, "layers.#.mlp.shared_experts.gate_proj"},
    {WeightSlot::kSharedUp, FusedPart::kUp, "layers.#.mlp.shared_experts.up_proj"},
    {WeightSlot::kSharedDown, FusedPart::kAll, "layers.#.mlp.shared_experts.down_proj"},
};
constexpr auto kErnieMoeWeights = WithNorms(kLlamaNorms, kLlamaExperts, kErnieExperts);
constexpr const char* kErnieMoeTypes[] = {"ernie4_5_moe"};

void WriteGgufErnieMoe(GgufConfigWriter* config) {
  (*config)["moe_num_experts"] = (*config)["num_local_experts"];
  (*config)["moe_k"] = (*config)["num_experts_per_tok"];
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  (*config)["moe_num_shared_experts"] = 0;
  config->Copy("expert_shared_count", "moe_num_shared_experts");
  (*config)["moe_layer_start_index"] = 0;
  config->Copy("leading_dense_block_count", "moe_layer_start_index");
  config->Copy("interleave_moe_layer_step", "moe_layer_interval");
}

constexpr GgufForm kErnieMoeGguf[] = {
    {.name = "ernie4_5-moe", .write_fields = &WriteGgufErnieMoe, .interleaved_rotation = true, .experts = true}};

}  // namespace

extern const Architecture kErnieMoe = {.name = "ernie4_5_moe",
                                       .model_types = kErnieMoeTypes,
                                       .parse_config = &ParseErnieMoe,
                                       .names = {kLlamaPrefixes, kErnieMoeWeights, kLlamaBuffers},
                                       .gguf = kErnieMoeGguf};

}  // namespace dunlin::engine
