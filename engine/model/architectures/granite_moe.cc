// SPDX-License-Identifier: Apache-2.0
// Granite 3's mixtures of experts: Granite's multipliers, and experts in every layer, stacked in the checkpoint;
// next to them an MLP that every token takes in granitemoeshared. Source: transformers 5.24, models/granitemoe,
// models/granitemoeshared.
#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/granite_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseGraniteMoe(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048}, config);
  ParseGraniteMultipliers(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  ParseExperts(fields, {.num_experts = 8, .num_chosen = 2}, config);
  config->experts.routing.scoring = kernels::ExpertScoring::kSoftmaxOfChosen;
  config->experts.shared_ffn_dim = static_cast<int32_t>(fields.IntOr("shared_intermediate_size", 0, kMaxFfnDim, 0));
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kGraniteMoeNames[] = {
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kRouter, kExperts, "layers.#.block_sparse_moe.router.layer"},
    {kExpertUp, kAll, "layers.#.block_sparse_moe.input_linear.@"},
    {kExpertDown, kAll, "layers.#.block_sparse_moe.output_linear.@"},
    {kSharedUp, kAll, "layers.#.shared_mlp.input_linear"},
    {kSharedDown, kAll, "layers.#.shared_mlp.output_linear"},
};
constexpr auto kGraniteMoeWeights = WithNorms(kGraniteMoeNames);
constexpr const char* kGraniteMoeTypes[] = {"granitemoe"};
constexpr const char* kGraniteMoeSharedTypes[] = {"granitemoeshared"};

void WriteGgufGraniteMoe(GgufConfigWriter* config) {
  RefuseGgufSharedExperts(config);
  WriteGgufGranite(config);
}

constexpr GgufForm kGraniteMoeGguf[] = {
    {.name = "granitemoe", .write_fields = &WriteGgufGraniteMoe, .interleaved_rotation = true, .experts = true}};

}  // namespace

extern const Architecture kGraniteMoe = {.name = "granitemoe",
                                         .model_types = kGraniteMoeTypes,
                                         .parse_config = &ParseGraniteMoe,
                                         .names = {kLlamaPrefixes, kGraniteMoeWeights, kLlamaBuffers},
                                         .gguf = kGraniteMoeGguf};
extern const Architecture kGraniteMoeShared = {.name = "granitemoeshared",
                                               .model_types = kGraniteMoeSharedTypes,
                                               .parse_config = &ParseGraniteMoe,
                                               .names = {kLlamaPrefixes, kGraniteMoeWeights, kLlamaBuffers}};

}  // namespace dunlin::engine
