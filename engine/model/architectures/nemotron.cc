// SPDX-License-Identifier: Apache-2.0
// Nemotron (Minitron, Nemotron 3 and 4): LayerNorm that is stored as w and applied as 1 + w, a plain MLP with squared
// ReLU, partially rotated heads. Source: transformers 5.23, models/nemotron.
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kNemotronDefaults = {
    .max_context = 4096, .activation = "relu2", .rotary = {.default_partial_factor = 0.5, .partial = true}};

void ParseNemotron(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kNemotronDefaults, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.bias = true;
  config->norm.weight_offset = 1.0F;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("norm_eps", 1e-12, 1.0, 1e-5));
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
  config->mlp.gated = false;
}

constexpr const char* kNemotronTypes[] = {"nemotron"};

constexpr auto kNemotronGgufFields = GgufFieldNames(kGgufNormKey, "norm_eps", "rope_theta");
constexpr GgufForm kNemotronGguf[] = {{.name = "nemotron",
                                       .fields = kNemotronGgufFields,
                                       .weights = gguf_names::kPlain,
                                       .partial_rotary_field = "partial_rotary_factor",
                                       .offset_norms = true}};

}  // namespace

extern const Architecture kNemotron = {.name = "nemotron",
                                       .model_types = kNemotronTypes,
                                       .parse_config = &ParseNemotron,
                                       .names = {kLlamaPrefixes, kLlamaPlainWeights, kLlamaBuffers},
                                       .gguf = kNemotronGguf};

}  // namespace dunlin::engine
