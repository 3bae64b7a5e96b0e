// SPDX-License-Identifier: Apache-2.0
// Granite 3 and 4 (dense): Llama with multipliers of the embedding, the attention scores, the residual terms and, as a
// divisor, the logits. Source: transformers 5.23, models/granite.
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/granite_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr double kMinMultiplier = 1e-6;
constexpr double kMaxMultiplier = 1e6;

void ParseGranite(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048}, config);
  ParseGraniteMultipliers(fields, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
}

constexpr const char* kGraniteTypes[] = {"granite"};

constexpr GgufForm kGraniteGguf[] = {
    {.name = "granite", .write_fields = &WriteGgufGranite, .interleaved_rotation = true}};

}  // namespace

void ParseGraniteMultipliers(JsonFields& fields, ModelConfig* config) {
  const auto multiplier = [&fields](const char* name) {
    return fields.NumberOr(name, kMinMultiplier, kMaxMultiplier, 1.0);
  };
  config->embedding.scale = static_cast<float>(multiplier("embedding_multiplier"));
  config->attention.scale = static_cast<float>(multiplier("attention_multiplier"));
  config->residual_scale = static_cast<float>(multiplier("residual_multiplier"));
  config->head.scale = static_cast<float>(1.0 / multiplier("logits_scaling"));
}

extern const Architecture kGranite = {.name = "granite",
                                      .model_types = kGraniteTypes,
                                      .parse_config = &ParseGranite,
                                      .names = {kLlamaPrefixes, kLlamaWeights, kLlamaBuffers},
                                      .gguf = kGraniteGguf};

}  // namespace dunlin::engine
