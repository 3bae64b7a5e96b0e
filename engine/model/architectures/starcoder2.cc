// SPDX-License-Identifier: Apache-2.0
// StarCoder 2: LayerNorm, biases, a plain MLP, grouped-query attention with rotary positions and a sliding window.
// Source: transformers 5.23, models/starcoder2.
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/attention_windows.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/architectures/llama_family.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseStarcoder2(JsonFields& fields, ModelConfig* config) {
  SetSizes(fields, 4096, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, 2);
  SetHeads(fields, num_heads, num_kv_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, 0), config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.bias = true;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("norm_epsilon", 1e-12, 1.0, 1e-5));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "gelu_pytorch_tanh");
  config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = fields.BoolOr("use_bias", true);
  config->head.tied = fields.BoolOr("tie_word_embeddings", true);
  SetRotary(fields, {}, config);
  SetWindows(fields, fields.IntOr("sliding_window", 1, kMaxContextTokens, 0), {}, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kStarcoder2Weights[] = {
    {kEmbedding, kAll, "embed_tokens"},
    {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"},
    {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj"},
    {kMlpUp, kAll, "layers.#.mlp.c_fc"},
    {kMlpDown, kAll, "layers.#.mlp.c_proj"},
    {kFinalNorm, kAll, "norm"},
    {kHead, kAll, "lm_head", false},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
};
constexpr const char* kStarcoder2Types[] = {"starcoder2"};

constexpr auto kStarcoder2GgufFields = GgufFieldNames(kGgufNormKey, "norm_epsilon", "rope_theta");
constexpr GgufForm kStarcoder2Gguf[] = {{.name = "starcoder2",
                                         .fields = kStarcoder2GgufFields,
                                         .weights = gguf_names::kPlain,
                                         .write_fields = &WriteGgufWindow}};

}  // namespace

extern const Architecture kStarcoder2 = {.name = "starcoder2",
                                         .model_types = kStarcoder2Types,
                                         .parse_config = &ParseStarcoder2,
                                         .names = {kLlamaPrefixes, kStarcoder2Weights, kLlamaBuffers},
                                         .gguf = kStarcoder2Gguf};

}  // namespace dunlin::engine
