// SPDX-License-Identifier: Apache-2.0
// Falcon: LayerNorm, a plain MLP, rotary positions, Q, K and V interleaved by head of K. Falcon 7B has one head of K,
// and one norm for attention and MLP, which are added in parallel; the new decoder architecture (40B, 180B) has several
// heads of K and, unless num_ln_in_parallel_attn is 1 (11B), a norm for each. Falcon RW has ALiBi, and its terms one
// after the other. Source: transformers 5.23, models/falcon.
#include "absl/strings/str_cat.h"
#include "engine/model/architectures/alibi.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

int64_t ParseKvHeads(JsonFields& fields, int64_t num_heads, bool new_decoder) {
  if (new_decoder) return fields.IntOr("num_kv_heads", 1, kMaxHeads, num_heads);
  return fields.BoolOr("multi_query", true) ? 1 : num_heads;
}

void SetNorms(JsonFields& fields, bool new_decoder, ModelConfig* config) {
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.bias = true;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  config->parallel_residual = fields.BoolOr("parallel_attn", true);
  const int64_t num_norms = fields.IntOr("num_ln_in_parallel_attn", 1, 2, new_decoder ? 2 : 1);
  if (new_decoder && !config->parallel_residual) {
    fields.Fail("parallel_attn is false with new_decoder_architecture, which is not supported");
  }
  if (!new_decoder && num_norms == 2) {
    fields.Fail("num_ln_in_parallel_attn is 2 without new_decoder_architecture, which is not supported");
  }
  config->norm.shared = config->parallel_residual && num_norms == 1;
}

// ALiBi's bias takes a number for each head and position.
void SetPositions(JsonFields& fields, ModelConfig* config) {
  constexpr int64_t kMaxBiases = 1 << 24;
  if (!fields.BoolOr("alibi", false)) return SetRotary(fields, {}, config);
  if (!fields.status().ok()) return;
  if (const int64_t limit = kMaxBiases / config->attention.num_heads; config->max_context > limit) {
    return fields.Fail(absl::StrCat("max_position_embeddings is ", config->max_context, " with alibi and ",
                                    config->attention.num_heads, " heads; limit is ", limit));
  }
  config->attention.key_bias = RoundedAlibi(config->attention.num_heads, config->max_context, config->attention.scale);
}

void ParseFalcon(JsonFields& fields, ModelConfig* config) {
  config->num_layers = static_cast<int32_t>(fields.Int("num_hidden_layers", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("hidden_size", 1, kMaxHiddenDim));
  config->mlp.ffn_dim =
      static_cast<int32_t>(fields.IntOr("ffn_hidden_size", 1, kMaxFfnDim, 4 * int64_t{config->hidden_dim}));
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.IntOr("max_position_embeddings", 1, kMaxContextTokens, 2048));
  const bool new_decoder = fields.BoolOr("new_decoder_architecture", false);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, ParseKvHeads(fields, num_heads, new_decoder), 0, config);
  SetNorms(fields, new_decoder, config);
  config->mlp.activation = ParseActivation(fields, "activation", "gelu");
  config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = fields.BoolOr("bias", false);
  config->head.tied = fields.BoolOr("tie_word_embeddings", true);
  SetPositions(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kFalconWeights[] = {
    {kEmbedding, kAll, "word_embeddings"},
    {kAttentionNorm, kAll, "h.#.input_layernorm"},
    {kQkv, FusedPart::kQkvByHead, "h.#.self_attention.query_key_value"},
    {kAttentionOut, kAll, "h.#.self_attention.dense"},
    {kMlpNorm, kAll, "h.#.post_attention_layernorm"},
    {kMlpUp, kAll, "h.#.mlp.dense_h_to_4h"},
    {kMlpDown, kAll, "h.#.mlp.dense_4h_to_h"},
    {kFinalNorm, kAll, "ln_f"},
    {kHead, kAll, "lm_head", false},
};
// With two norms in parallel.
constexpr NameAlias kFalconAliases[] = {{".input_layernorm.", ".ln_attn."}, {".post_attention_layernorm.", ".ln_mlp."}};
constexpr const char* kFalconTypes[] = {"falcon"};
constexpr const char* kFalconPrefixes[] = {"transformer.", ""};
constexpr const char* kFalconBuffers[] = {".rotary_emb.inv_freq", ".self_attention.maybe_rotary.inv_freq"};

// Q, K and V stand one behind the other in every file, as in the new decoder architecture with any number of heads.
void WriteGgufFalcon(GgufConfigWriter* config) {
  if (config->HasTensor("blk.0.ffn_norm.weight")) {
    config->fields().Fail("blk.0.ffn_norm.weight",
                          "is there: parallel_attn false with alibi true, as of Falcon RW, is not supported in a GGUF "
                          "file; its Hugging Face directory is served");
  }
  (*config)["new_decoder_architecture"] = true;
  (*config)["num_kv_heads"] = 1;
  config->Copy("attention.head_count_kv", "num_kv_heads");
  (*config)["num_ln_in_parallel_attn"] = config->HasTensor("blk.0.attn_norm_2.weight") ? 2 : 1;
}

constexpr GgufFieldName kFalconGgufFields[] = {{"block_count", "num_hidden_layers"},
                                               {"embedding_length", "hidden_size"},
                                               {"feed_forward_length", "ffn_hidden_size"},
                                               {"attention.head_count", "num_attention_heads"},
                                               {"context_length", "max_position_embeddings"},
                                               {kGgufNormKey, "layer_norm_epsilon"},
                                               {"rope.freq_base", "rope_theta"}};
constexpr GgufForm kFalconGguf[] = {{.name = "falcon",
                                     .fields = kFalconGgufFields,
                                     .weights = gguf_names::kPlainParallelNorms,
                                     .write_fields = &WriteGgufFalcon,
                                     .tensor = "blk.0.attn_norm_2.weight",
                                     .head_dim_follows = true},
                                    {.name = "falcon",
                                     .fields = kFalconGgufFields,
                                     .weights = gguf_names::kPlainFused,
                                     .write_fields = &WriteGgufFalcon,
                                     .head_dim_follows = true}};

}  // namespace

extern const Architecture kFalcon = {.name = "falcon",
                                     .model_types = kFalconTypes,
                                     .parse_config = &ParseFalcon,
                                     .names = {kFalconPrefixes, kFalconWeights, kFalconBuffers, kFalconAliases},
                                     .gguf = kFalconGguf};

}  // namespace dunlin::engine
