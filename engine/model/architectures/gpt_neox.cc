// SPDX-License-Identifier: Apache-2.0
// GPT-NeoX (Pythia, ...): LayerNorm, partially rotated heads, Q, K and V interleaved by head, and a parallel residual
// unless use_parallel_residual is false.
// Source: transformers 5.23, models/gpt_neox.
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryFields kGptNeoXRotary = {
    .theta = "rotary_emb_base", .partial_factor = "rotary_pct", .default_partial_factor = 0.25, .partial = true};

void ParseGptNeoX(JsonFields& fields, ModelConfig* config) {
  SetSizes(fields, 2048, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-5));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "gelu");
  config->norm.bias = config->mlp.bias = true;
  config->attention.qkv_bias = config->attention.out_bias = fields.BoolOr("attention_bias", true);
  config->parallel_residual = fields.BoolOr("use_parallel_residual", true);
  config->head.tied = fields.BoolOr("tie_word_embeddings", false);
  SetRotary(fields, kGptNeoXRotary, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kGptNeoXWeights[] = {
    {kEmbedding, kAll, "embed_in"},
    {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQkv, FusedPart::kQkvByHead, "layers.#.attention.query_key_value"},
    {kAttentionOut, kAll, "layers.#.attention.dense"},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm"},
    {kMlpUp, kAll, "layers.#.mlp.dense_h_to_4h"},
    {kMlpDown, kAll, "layers.#.mlp.dense_4h_to_h"},
    {kFinalNorm, kAll, "final_layer_norm"},
    {kHead, kAll, "embed_out", false},
};
constexpr const char* kGptNeoXTypes[] = {"gpt_neox"};
constexpr const char* kGptNeoXPrefixes[] = {"gpt_neox.", ""};
// The causal mask and the rotary frequencies.
constexpr const char* kGptNeoXBuffers[] = {".attention.bias", ".attention.masked_bias",
                                           ".attention.rotary_emb.inv_freq"};
constexpr NameAlias kGptNeoXAliases[] = {{"embed_out.", "lm_head."}};  // the name in transformers 5

void WriteGgufGptNeoX(GgufConfigWriter* config) {
  (*config)["use_parallel_residual"] = true;
  config->CopyFlag("use_parallel_residual", "use_parallel_residual");
}

constexpr auto kGptNeoXGgufFields = GgufFieldNames(kGgufNormKey, "layer_norm_eps", "rotary_emb_base");
constexpr GgufForm kGptNeoXGguf[] = {{.name = "gptneox",
                                      .fields = kGptNeoXGgufFields,
                                      .weights = gguf_names::kPlainFused,
                                      .write_fields = &WriteGgufGptNeoX,
                                      .partial_rotary_field = "rotary_pct",
                                      .head_dim_follows = true,
                                      .fixed_biases = true}};

}  // namespace

extern const Architecture kGptNeoX = {.name = "gpt_neox",
                                      .model_types = kGptNeoXTypes,
                                      .parse_config = &ParseGptNeoX,
                                      .names = {kGptNeoXPrefixes, kGptNeoXWeights, kGptNeoXBuffers, kGptNeoXAliases},
                                      .gguf = kGptNeoXGguf};

}  // namespace dunlin::engine
