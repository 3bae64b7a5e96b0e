// SPDX-License-Identifier: Apache-2.0
// Llama: the family's fields, with biases where the config asks for them.
// Source: transformers 5.23, models/llama.
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

void ParseLlama(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048}, config);
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", false);
  config->mlp_bias = fields.BoolOr("mlp_bias", false);
}

constexpr const char* kModelTypes[] = {"llama"};

}  // namespace

const Architecture kLlama = {"llama", kModelTypes, &ParseLlama, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};

}  // namespace dunlin::engine
