// SPDX-License-Identifier: Apache-2.0
// Qwen3-Next and Qwen 3.5 to 3.8, dense and with experts: gated delta nets, and every few layers attention with a gated
// output. Norm weights are 1 + w, those of the gated norms w. Queries and their gates alternate by head in one matrix;
// Qwen3-Next has the projections of a delta net fused by key head. Of Qwen 3.5 the text model.
// Source: transformers 5.24, models/qwen3_next, models/qwen3_5, models/qwen3_5_moe.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/delta_fields.h"
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/checkpoint/gguf/gguf_config.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kNextDefaultContext = 32768;
constexpr int64_t kNextExpertWidth = 512;
constexpr DeltaDefaults kNextDelta = {.key_heads = 16, .value_heads = 32, .key_dim = 128, .value_dim = 128};

void ParseNextFamily(JsonFields& fields, int64_t default_ffn, ModelConfig* config) {
  ParseLlamaFamily(
      fields,
      {.max_context = kNextDefaultContext,
       .head_dim = 256,
       .ffn_dim = default_ffn,
       .rotary = {.default_partial_factor = 0.25, .partial = true, .sections = SectionOrder::kInterleaved}},
      config);
  config->norm.weight_offset = 1.0F;
  config->attention.qk_norm = true;
  config->attention.output_gate = true;
  RefuseUnsupported(fields, {"attention_bias"});
  if (!fields.BoolOr("attn_output_gate", true)) fields.Fail("attn_output_gate is false, which is not supported");
  if (!fields.status().ok()) return;
  ParseDelta(fields, kNextDelta, config);
  ParseDeltaLayers(fields, config);
}

void ParseNextExperts(JsonFields& fields, const ExpertDefaults& experts, ModelConfig* config) {
  ParseExperts(fields, experts, config);
  config->experts.routing.normalized = fields.BoolOr("norm_topk_prob", true);
  config->experts.shared_ffn_dim =
      static_cast<int32_t>(fields.IntOr("shared_expert_intermediate_size", 1, kMaxFfnDim, kNextExpertWidth));
  config->experts.shared_gate = true;
}

void ParseQwen35(JsonFields& fields, ModelConfig* config) {
  ParseNextFamily(fields, 0, config);
}

// Every layer has experts: there is no intermediate_size.
void ParseQwen35Moe(JsonFields& fields, ModelConfig* config) {
  ParseNextFamily(fields, kNextExpertWidth, config);
  ParseNextExperts(
      fields,
      {.num_experts = 256, .num_chosen = 8, .width = "moe_intermediate_size", .default_width = kNextExpertWidth},
      config);
}

void ParseQwen3Next(JsonFields& fields, ModelConfig* config) {
  ParseNextFamily(fields, 5632, config);
  ParseNextExperts(
      fields,
      {.num_experts = 512, .num_chosen = 10, .width = "moe_intermediate_size", .default_width = kNextExpertWidth},
      config);
  ParseSparseLayers(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

// The names of the Llama family, whose queries share a matrix with their gates here, and others.
template <size_t... kCounts>
constexpr auto WithGates(const WeightName (&... others)[kCounts]) {
  auto all = WithNorms(others...);
  for (WeightName& name : all) {
    if (name.part == kQuery) name.part = kQueryOfPairs;
  }
  return all;
}

constexpr WeightName kGatedAttention[] = {
    {kAttentionGate, kGateOfPairs, "layers.#.self_attn.q_proj"},
};
constexpr WeightName kDeltaNet[] = {
    {kDeltaConv, kAll, "layers.#.linear_attn.conv1d"},
    {.slot = kDeltaRate, .part = kAll, .name = "layers.#.linear_attn.A_log", .weight = ""},
    {.slot = kDeltaTimeBias, .part = kAll, .name = "layers.#.linear_attn.dt_bias", .weight = ""},
    {kDeltaNorm, kAll, "layers.#.linear_attn.norm"},
    {kDeltaOut, kAll, "layers.#.linear_attn.out_proj"},
};
constexpr WeightName kDeltaFused[] = {
    {kDeltaIn, kDeltaQkvzByHead, "layers.#.linear_attn.in_proj_qkvz"},
    {kDeltaGates, kBetaAlphaByHead, "layers.#.linear_attn.in_proj_ba"},
};
constexpr WeightName kDeltaSplit[] = {
    {kDeltaIn, kDeltaQkv, "layers.#.linear_attn.in_proj_qkv"},
    {kDeltaIn, kDeltaZ, "layers.#.linear_attn.in_proj_z"},
    {kDeltaGates, kBeta, "layers.#.linear_attn.in_proj_b"},
    {kDeltaGates, kAlpha, "layers.#.linear_attn.in_proj_a"},
};
constexpr WeightName kNextShared[] = {
    {kRouter, kSharedGate, "layers.#.mlp.shared_expert_gate"},
    {kSharedUp, kGate, "layers.#.mlp.shared_expert.gate_proj"},
    {kSharedUp, kUp, "layers.#.mlp.shared_expert.up_proj"},
    {kSharedDown, kAll, "layers.#.mlp.shared_expert.down_proj"},
};
constexpr auto kQwen35Weights = WithGates(kLlamaQkNorms, kGatedAttention, kDeltaNet, kDeltaSplit);
constexpr auto kQwen35MoeWeights =
    WithGates(kLlamaQkNorms, kGatedAttention, kDeltaNet, kDeltaSplit, kLlamaExperts, kNextShared);
constexpr auto kQwen35MoeStacked =
    WithGates(kLlamaQkNorms, kGatedAttention, kDeltaNet, kDeltaSplit, kLlamaStackedExperts, kNextShared);
constexpr auto kQwen3NextWeights =
    WithGates(kLlamaQkNorms, kGatedAttention, kDeltaNet, kDeltaFused, kLlamaExperts, kNextShared);
constexpr auto kQwen3NextStacked =
    WithGates(kLlamaQkNorms, kGatedAttention, kDeltaNet, kDeltaFused, kLlamaStackedExperts, kNextShared);
constexpr const char* kQwen35Types[] = {"qwen3_5_text"};
constexpr const char* kQwen35MoeTypes[] = {"qwen3_5_moe_text"};
constexpr const char* kQwen3NextTypes[] = {"qwen3_next"};
constexpr const char* kQwen35Outer[] = {"qwen3_5"};
constexpr const char* kQwen35MoeOuter[] = {"qwen3_5_moe"};

// Which layers attend and which have experts is told by their tensors.
void WriteGgufDelta(GgufConfigWriter* config) {
  const int64_t value_heads = config->Required("ssm.time_step_rank", 1, kMaxHeads);
  const int64_t values = config->Required("ssm.inner_size", 1, kMaxHeads * kMaxHeadDim);
  if (values % value_heads != 0) {
    config->fields().Fail(config->Key("ssm.inner_size"),
                          absl::StrCat("is ", values, ", which ", value_heads, " heads do not divide"));
  }
  (*config)["linear_num_key_heads"] = config->Required("ssm.group_count", 1, kMaxHeads);
  (*config)["linear_num_value_heads"] = value_heads;
  (*config)["linear_key_head_dim"] = config->Required("ssm.state_size", 1, kMaxHeadDim);
  (*config)["linear_value_head_dim"] = values / value_heads;
  (*config)["linear_conv_kernel_dim"] = config->Required("ssm.conv_kernel", 2, kernels::kConvTapsMax);
  (*config)["layer_types"] = GgufConfigWriter::Json::array();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const bool linear = config->HasTensor(absl::StrCat("blk.", layer, ".ssm_conv1d.weight"));
    (*config)["layer_types"].push_back(linear ? "linear_attention" : "full_attention");
  }
}

void WriteGgufDeltaExperts(GgufConfigWriter* config) {
  WriteGgufDelta(config);
  (*config)["moe_intermediate_size"] = config->ExpertWidth();
  config->Copy("expert_shared_feed_forward_length", "shared_expert_intermediate_size");
  (*config)["mlp_only_layers"] = GgufConfigWriter::Json::array();
  for (int64_t layer = 0; layer < config->num_layers(); ++layer) {
    const bool experts = config->HasTensor(absl::StrCat("blk.", layer, ".ffn_gate_inp.weight"));
    if (!experts) (*config)["mlp_only_layers"].push_back(layer);
  }
}

constexpr GgufForm kQwen35Gguf[] = {{.name = "qwen35",
                                     .weights = gguf_names::kHybrid,
                                     .write_fields = &WriteGgufDelta,
                                     .partial_rotary_field = "partial_rotary_factor",
                                     .offset_norms = true,
                                     .image_sections = true,
                                     .tiled_values = true}};
constexpr GgufForm kQwen35MoeGguf[] = {{.name = "qwen35moe",
                                        .weights = gguf_names::kHybrid,
                                        .write_fields = &WriteGgufDeltaExperts,
                                        .partial_rotary_field = "partial_rotary_factor",
                                        .offset_norms = true,
                                        .experts = true,
                                        .image_sections = true,
                                        .tiled_values = true}};
constexpr GgufForm kQwen3NextGguf[] = {{.name = "qwen3next",
                                        .weights = gguf_names::kHybridByHead,
                                        .write_fields = &WriteGgufDeltaExperts,
                                        .partial_rotary_field = "partial_rotary_factor",
                                        .offset_norms = true,
                                        .experts = true}};

}  // namespace

extern const Architecture kQwen35 = {.name = "qwen3_5_text",
                                     .model_types = kQwen35Types,
                                     .parse_config = &ParseQwen35,
                                     .names = {kLlamaPrefixes, kQwen35Weights, kLlamaBuffers, kTextPartAliases},
                                     .gguf = kQwen35Gguf,
                                     .multimodal_types = kQwen35Outer};
extern const Architecture kQwen35Moe = {.name = "qwen3_5_moe_text",
                                        .model_types = kQwen35MoeTypes,
                                        .parse_config = &ParseQwen35Moe,
                                        .names = {.prefixes = kLlamaPrefixes,
                                                  .weights = kQwen35MoeWeights,
                                                  .ignored = kLlamaBuffers,
                                                  .aliases = kTextPartAliases,
                                                  .stacked = kQwen35MoeStacked},
                                        .gguf = kQwen35MoeGguf,
                                        .multimodal_types = kQwen35MoeOuter};
extern const Architecture kQwen3Next = {.name = "qwen3_next",
                                        .model_types = kQwen3NextTypes,
                                        .parse_config = &ParseQwen3Next,
                                        .names = {.prefixes = kLlamaPrefixes,
                                                  .weights = kQwen3NextWeights,
                                                  .ignored = kLlamaBuffers,
                                                  .stacked = kQwen3NextStacked},
                                        .gguf = kQwen3NextGguf};

}  // namespace dunlin::engine
