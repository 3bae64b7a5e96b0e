// SPDX-License-Identifier: Apache-2.0
// Arcee (AFM 4.5B): Llama with a plain MLP of squared ReLU. Source: transformers 5.23, models/arcee.
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

void ParseArcee(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 4096, .activation = "relu2", .norm_epsilon = 1e-5}, config);
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", false);
  config->mlp.bias = fields.BoolOr("mlp_bias", false);
  config->mlp.gated = false;
}

constexpr const char* kArceeTypes[] = {"arcee"};

constexpr GgufForm kArceeGguf[] = {{.name = "arcee", .weights = gguf_names::kPlain, .interleaved_rotation = true}};

}  // namespace

extern const Architecture kArcee = {.name = "arcee",
                                    .model_types = kArceeTypes,
                                    .parse_config = &ParseArcee,
                                    .names = {kLlamaPrefixes, kLlamaPlainWeights, kLlamaBuffers},
                                    .gguf = kArceeGguf};

}  // namespace dunlin::engine
