// SPDX-License-Identifier: Apache-2.0
// Qwen 2 and Qwen 3 with experts. Qwen 2's layers have a shared expert with a gate besides. Layers may be dense.
// Qwen 3 VL's large models have the latter as their text models, with stacked experts.
// Source: transformers 5.24, models/qwen2_moe, models/qwen3_moe, models/qwen3_vl_moe.
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kQwenMoeDefaultContext = 32768;

void ParseQwenMoeBoth(JsonFields& fields, const ExpertDefaults& experts, ModelConfig* config) {
  // Of Qwen 3 VL; no Qwen 2 with experts has sections.
  ParseLlamaFamily(fields, {.max_context = kQwenMoeDefaultContext, .rotary = {.sections = SectionOrder::kInterleaved}},
                   config);
  ParseExperts(fields, experts, config);
  config->experts.routing.normalized = fields.BoolOr("norm_topk_prob", false);
  ParseSparseLayers(fields, config);
}

// With use_sliding_window and without layer_types, every second layer below max_window_layers slides.
void ParseQwen2Moe(JsonFields& fields, ModelConfig* config) {
  ParseQwenMoeBoth(
      fields, {.num_experts = 60, .num_chosen = 4, .width = "moe_intermediate_size", .default_width = 1408}, config);
  config->attention.qkv_bias = fields.BoolOr("qkv_bias", true);
  config->experts.shared_ffn_dim =
      static_cast<int32_t>(fields.IntOr("shared_expert_intermediate_size", 1, kMaxFfnDim, 5632));
  config->experts.shared_gate = true;
  const bool slides = fields.BoolOr("use_sliding_window", false);
  const int64_t end = fields.IntOr("max_window_layers", 0, kMaxLayers, 28);
  SetWindows(fields, slides ? ParseWindow(fields) : 0, {.step = 2}, config);
  if (fields.Has("layer_types")) return;
  for (size_t i = static_cast<size_t>(end); i < config->attention.layer_windows.size(); ++i)
    config->attention.layer_windows[i] = 0;
}

void ParseQwen3Moe(JsonFields& fields, ModelConfig* config) {
  ParseQwenMoeBoth(
      fields, {.num_experts = 128, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = 768}, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->attention.qk_norm = true;
  SetWindows(fields, fields.BoolOr("use_sliding_window", false) ? ParseWindow(fields) : 0, {}, config);
}

// Weights of the chosen experts always add up to 1.
void ParseQwen3VlMoe(JsonFields& fields, ModelConfig* config) {
  ParseQwen3Moe(fields, config);
  config->experts.routing.normalized = true;
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kQwen2Names[] = {
    {kRouter, kSharedGate, "layers.#.mlp.shared_expert_gate"},
    {kSharedUp, kGate, "layers.#.mlp.shared_expert.gate_proj"},
    {kSharedUp, kUp, "layers.#.mlp.shared_expert.up_proj"},
    {kSharedDown, kAll, "layers.#.mlp.shared_expert.down_proj"},
};
constexpr auto kQwen2Weights = WithNorms(kLlamaNorms, kLlamaExperts, kQwen2Names);
constexpr auto kQwen3MoeWeights = WithNorms(kLlamaQkNorms, kLlamaExperts);
constexpr const char* kQwen2Types[] = {"qwen2_moe"};
constexpr auto kQwen3MoeStacked = WithNorms(kLlamaQkNorms, kLlamaStackedExperts);
constexpr const char* kQwen3Types[] = {"qwen3_moe"};
constexpr const char* kQwen3VlMoeTypes[] = {"qwen3_vl_moe_text"};
constexpr const char* kQwen3VlMoeOuter[] = {"qwen3_vl_moe"};

void WriteGgufQwen2Moe(GgufConfigWriter* config) {
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  config->Copy("feed_forward_length", "shared_expert_intermediate_size");
  config->Copy("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
}

constexpr GgufForm kQwen2MoeGguf[] = {{.name = "qwen2moe", .write_fields = &WriteGgufQwen2Moe, .experts = true}};

void WriteGgufQwen3Moe(GgufConfigWriter* config) {
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  (*config)["norm_topk_prob"] = true;  // of every published model; files do not say
}

constexpr GgufForm kQwen3MoeGguf[] = {
    {.name = "qwen3moe", .write_fields = &WriteGgufQwen3Moe, .experts = true},
    {.name = "qwen3vlmoe", .write_fields = &WriteGgufQwen3Moe, .experts = true, .image_sections = true}};

}  // namespace

extern const Architecture kQwen2Moe = {.name = "qwen2_moe",
                                       .model_types = kQwen2Types,
                                       .parse_config = &ParseQwen2Moe,
                                       .names = {kLlamaPrefixes, kQwen2Weights, kLlamaBuffers},
                                       .gguf = kQwen2MoeGguf};
extern const Architecture kQwen3Moe = {.name = "qwen3_moe",
                                       .model_types = kQwen3Types,
                                       .parse_config = &ParseQwen3Moe,
                                       .names = {kLlamaPrefixes, kQwen3MoeWeights, kLlamaBuffers},
                                       .gguf = kQwen3MoeGguf};
extern const Architecture kQwen3VlMoe = {.name = "qwen3_vl_moe",
                                         .model_types = kQwen3VlMoeTypes,
                                         .parse_config = &ParseQwen3VlMoe,
                                         .names = {.prefixes = kLlamaPrefixes,
                                                   .weights = kQwen3MoeWeights,
                                                   .ignored = kLlamaBuffers,
                                                   .aliases = kTextPartAliases,
                                                   .expert_layout = ExpertLayout::kColumnsOrRows,
                                                   .stacked = kQwen3MoeStacked},
                                         .multimodal_types = kQwen3VlMoeOuter};

}  // namespace dunlin::engine
