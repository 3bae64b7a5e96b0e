// SPDX-License-Identifier: Apache-2.0
// BLOOM: LayerNorm, a norm after the embedding, biases everywhere, Q, K and V interleaved by head, and ALiBi in place
// of positions. Source: transformers 5.23, models/bloom.
#include "engine/model/architectures/alibi.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kBloomDefaultContext = 2048;  // trained; ALiBi itself has no limit

void ParseBloom(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"apply_residual_connection_post_layernorm"});
  config->num_layers = static_cast<int32_t>(fields.Int("n_layer", 1, kMaxLayers));
  const char* hidden = fields.Has("hidden_size") ? "hidden_size" : "n_embed";
  config->hidden_dim = static_cast<int32_t>(fields.Int(hidden, 1, kMaxHiddenDim));
  config->mlp.ffn_dim = 4 * config->hidden_dim;
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.IntOr("seq_length", 1, kMaxContextTokens, kBloomDefaultContext));
  const int64_t num_heads = fields.Int(fields.Has("n_head") ? "n_head" : "num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->attention.alibi_slopes = AlibiSlopes(config->attention.num_heads);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  config->embedding.norm = true;
  config->mlp.activation = kernels::ActivationKind::kGeluTanh;
  config->norm.bias = config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = true;
  config->head.tied = fields.BoolOr("tie_word_embeddings", true);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kBloomWeights[] = {
    {kEmbedding, kAll, "word_embeddings"},
    {kEmbeddingNorm, kAll, "word_embeddings_layernorm"},
    {kAttentionNorm, kAll, "h.#.input_layernorm"},
    {kQkv, FusedPart::kQkvByHead, "h.#.self_attention.query_key_value"},
    {kAttentionOut, kAll, "h.#.self_attention.dense"},
    {kMlpNorm, kAll, "h.#.post_attention_layernorm"},
    {kMlpUp, kAll, "h.#.mlp.dense_h_to_4h"},
    {kMlpDown, kAll, "h.#.mlp.dense_4h_to_h"},
    {kFinalNorm, kAll, "ln_f"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kBloomTypes[] = {"bloom"};
constexpr const char* kBloomPrefixes[] = {"transformer.", ""};

constexpr GgufFieldName kBloomGgufFields[] = {{"block_count", "n_layer"},
                                              {"embedding_length", "hidden_size"},
                                              {"attention.head_count", "n_head"},
                                              {kGgufNormKey, "layer_norm_epsilon"},
                                              {"context_length", "seq_length"}};
constexpr GgufForm kBloomGguf[] = {{.name = "bloom",
                                    .fields = kBloomGgufFields,
                                    .weights = gguf_names::kPlainFused,
                                    .head_dim_follows = true,
                                    .fixed_biases = true}};

}  // namespace

extern const Architecture kBloom = {.name = "bloom",
                                    .model_types = kBloomTypes,
                                    .parse_config = &ParseBloom,
                                    .names = {kBloomPrefixes, kBloomWeights, {}},
                                    .gguf = kBloomGguf};

}  // namespace dunlin::engine
