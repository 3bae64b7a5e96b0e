// SPDX-License-Identifier: Apache-2.0
// Gemma 1: Llama's fields with norm weights stored as w and applied as 1 + w, and a scaled embedding.
// Source: transformers 5.23, models/gemma.
#include <cmath>

#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kGemmaDefaults = {
    .max_context = 8192, .head_dim = 256, .activation = "gelu_pytorch_tanh", .tied_embeddings = true};

void ParseGemma(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kGemmaDefaults, config);
  RefuseUnsupported(fields, {"use_bidirectional_attention"});
  // Published configs say "gelu" and mean its approximation, as transformers reads them.
  if (config->mlp.activation == kernels::ActivationKind::kGeluErf)
    config->mlp.activation = kernels::ActivationKind::kGeluTanh;
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->norm.weight_offset = 1.0F;
  config->embedding.scale = static_cast<float>(std::sqrt(static_cast<double>(config->hidden_dim)));
}

constexpr const char* kGemmaTypes[] = {"gemma"};

constexpr GgufForm kGemmaGguf[] = {{.name = "gemma", .offset_norms = true}};

}  // namespace

extern const Architecture kGemma = {.name = "gemma",
                                    .model_types = kGemmaTypes,
                                    .parse_config = &ParseGemma,
                                    .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                    .gguf = kGemmaGguf};

}  // namespace dunlin::engine
