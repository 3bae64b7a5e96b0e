// SPDX-License-Identifier: Apache-2.0
// Llama: the family's fields, with biases where the config asks for them. Seed-OSS names two of them otherwise;
// ERNIE 4.5 rotates neighbouring dimensions. Source: transformers 5.23, models/llama, models/seed_oss, models/ernie4_5.
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

void ParseLlama(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 2048}, config);
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", false);
  config->mlp_bias = fields.BoolOr("mlp_bias", false);
}

void ParseSeedOss(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, {.max_context = 524288, .head_dim = 128}, config);
  config->qkv_bias = fields.BoolOr("attention_bias", true);
  config->out_bias = fields.BoolOr("attention_out_bias", false);
  config->mlp_bias = fields.BoolOr("mlp_bias", false);
}

constexpr LlamaDefaults kErnieDefaults = {.max_context = 131072,
                                          .head_dim = 128,
                                          .tied_embeddings = true,
                                          .norm_epsilon = 1e-5,
                                          .rotary = {.default_theta = 500000.0}};

void ParseErnie(JsonFields& fields, ModelConfig* config) {
  ParseLlamaFamily(fields, kErnieDefaults, config);
  config->qkv_bias = config->out_bias = config->mlp_bias = fields.BoolOr("use_bias", false);
  config->interleaved_rotary = true;
}

constexpr const char* kLlamaTypes[] = {"llama"};
constexpr const char* kSeedOssTypes[] = {"seed_oss"};
constexpr const char* kErnieTypes[] = {"ernie4_5"};

}  // namespace

const Architecture kLlama = {"llama", kLlamaTypes, &ParseLlama, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};
const Architecture kSeedOss = {"seed_oss", kSeedOssTypes, &ParseSeedOss, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};
const Architecture kErnie = {"ernie4_5", kErnieTypes, &ParseErnie, kLlamaPrefixes, kLlamaWeights, kLlamaBuffers};

}  // namespace dunlin::engine
