// SPDX-License-Identifier: Apache-2.0
// GLM 4 as published in 2024 (glm) and 2025 (glm4): Llama with gate and up in one matrix, half of each head rotated,
// interleaved; glm4 has norms behind the attention and the MLP, too. GLM 4.1V and 4.6V Flash have it as their text
// model. Source: transformers 5.24, models/glm, models/glm4, models/glm4v.
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {
namespace {

constexpr LlamaDefaults kGlmDefaults = {.max_context = 131072,
                                        .head_dim = 128,
                                        .norm_epsilon = 1.5625e-7,
                                        .rotary = {.default_partial_factor = 0.5, .partial = true}};

constexpr LlamaDefaults kGlm4VDefaults = {.max_context = 32768, .norm_epsilon = 1e-5, .rotary = {.partial = true}};

void ParseGlmBy(JsonFields& fields, const LlamaDefaults& defaults, ModelConfig* config) {
  ParseLlamaFamily(fields, defaults, config);
  config->attention.qkv_bias = fields.BoolOr("attention_bias", true);
  config->rotary.interleaved = true;
}

void ParseGlm(JsonFields& fields, ModelConfig* config) {
  ParseGlmBy(fields, kGlmDefaults, config);
}

void ParseGlm4(JsonFields& fields, ModelConfig* config) {
  ParseGlm(fields, config);
  config->norm.placement = NormPlacement::kPreAndPost;
}

void ParseGlm4V(JsonFields& fields, ModelConfig* config) {
  ParseGlmBy(fields, kGlm4VDefaults, config);
  config->norm.placement = NormPlacement::kPreAndPost;
}

using enum WeightSlot;
using enum FusedPart;

// glm has the first of them, glm4 all.
constexpr WeightName kGlmWeights[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"},
    {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj"},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpUp, kAll, "layers.#.mlp.gate_up_proj"},
    {kMlpDown, kAll, "layers.#.mlp.down_proj"},
    {kFinalNorm, kAll, "norm"},
    {kHead, kAll, "lm_head", false},
    {kPostAttentionNorm, kAll, "layers.#.post_self_attn_layernorm"},
    {kPostMlpNorm, kAll, "layers.#.post_mlp_layernorm"},
};
constexpr const char* kGlmTypes[] = {"glm"};
constexpr const char* kGlm4Types[] = {"glm4"};
constexpr const char* kGlm4VTypes[] = {"glm4v_text"};
constexpr const char* kGlm4VOuter[] = {"glm4v", "glm46v"};

constexpr GgufForm kGlmGguf[] = {{.name = "chatglm",
                                  .weights = gguf_names::kPlainFused,
                                  .tensor = kGgufFusedQkv,
                                  .partial_rotary_field = "partial_rotary_factor",
                                  .interleaved_rotation = true},
                                 {.name = "chatglm",
                                  .weights = gguf_names::kPlain,
                                  .partial_rotary_field = "partial_rotary_factor",
                                  .interleaved_rotation = true}};

constexpr GgufForm kGlm4Gguf[] = {{.name = "glm4",
                                   .weights = gguf_names::kPlain,
                                   .partial_rotary_field = "partial_rotary_factor",
                                   .interleaved_rotation = true}};

}  // namespace

extern const Architecture kGlm = {.name = "glm",
                                  .model_types = kGlmTypes,
                                  .parse_config = &ParseGlm,
                                  .names = {kLlamaPrefixes, kGlmWeights, kLlamaBuffers},
                                  .gguf = kGlmGguf};
extern const Architecture kGlm4 = {.name = "glm4",
                                   .model_types = kGlm4Types,
                                   .parse_config = &ParseGlm4,
                                   .names = {kLlamaPrefixes, kGlmWeights, kLlamaBuffers},
                                   .gguf = kGlm4Gguf};
extern const Architecture kGlm4V = {.name = "glm4v",
                                    .model_types = kGlm4VTypes,
                                    .parse_config = &ParseGlm4V,
                                    .names = {kLlamaPrefixes, kGlmWeights, kLlamaBuffers, kTextPartAliases},
                                    .multimodal_types = kGlm4VOuter,
                                    .flat_text = true};

}  // namespace dunlin::engine
