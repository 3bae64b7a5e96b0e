// SPDX-License-Identifier: Apache-2.0
// BERT, RoBERTa and the models that share their config fields: post-norm encoders with learned positions and token
// types. The checkpoint's language-model heads are not used, nor is its pooler but by sequence classifiers: embeddings
// are pooled from the hidden states. Source: transformers 5.23, models/bert, models/roberta, models/xlm_roberta,
// models/camembert.
#include <algorithm>
#include <array>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kBertMaxTokenTypes = 1024;

void ParseBert(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"is_decoder", "add_cross_attention"});
  if (fields.TextOr("position_embedding_type", "absolute") != "absolute") {
    fields.Fail("position_embedding_type is not 'absolute', which is not supported");
  }
  config->kind = ModelKind::kEncoder;
  config->attention.causal = false;
  config->norm.placement = NormPlacement::kPost;
  config->num_layers = static_cast<int32_t>(fields.Int("num_hidden_layers", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("hidden_size", 1, kMaxHiddenDim));
  config->mlp.ffn_dim = static_cast<int32_t>(fields.Int("intermediate_size", 1, kMaxFfnDim));
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.Int("max_position_embeddings", 1, kMaxContextTokens));
  config->embedding.num_token_types = static_cast<int32_t>(fields.IntOr("type_vocab_size", 1, kBertMaxTokenTypes, 2));
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-12));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "gelu");
  config->norm.bias = config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = true;
  config->embedding.learned_positions = true;
  SetLabels(fields, config);
}

// Positions count the non-padding tokens and start after the padding token's row.
void ParseRoberta(JsonFields& fields, ModelConfig* config) {
  ParseBert(fields, config);
  const int64_t pad = fields.IntOr("pad_token_id", 0, kMaxVocabSize, 1);
  if (!fields.status().ok()) return;
  if (pad + 1 >= config->max_context) {
    fields.Fail(absl::StrCat("max_position_embeddings is ", config->max_context, ", but positions begin at row ",
                             pad + 1, " (pad_token_id + 1)"));
    return;
  }
  config->embedding.position_pad_id = static_cast<TokenId>(pad);
  config->embedding.position_offset = static_cast<int32_t>(pad) + 1;
  config->max_context -= config->embedding.position_offset;
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kCommonWeights[] = {
    {kEmbedding, kAll, "embeddings.word_embeddings"},
    {kPositions, kAll, "embeddings.position_embeddings"},
    {kTokenTypes, kAll, "embeddings.token_type_embeddings"},
    {kEmbeddingNorm, kAll, "embeddings.LayerNorm"},
    {kQkv, kQuery, "encoder.layer.#.attention.self.query"},
    {kQkv, kKey, "encoder.layer.#.attention.self.key"},
    {kQkv, kValue, "encoder.layer.#.attention.self.value"},
    {kAttentionOut, kAll, "encoder.layer.#.attention.output.dense"},
    {kAttentionNorm, kAll, "encoder.layer.#.attention.output.LayerNorm"},
    {kMlpUp, kAll, "encoder.layer.#.intermediate.dense"},
    {kMlpDown, kAll, "encoder.layer.#.output.dense"},
    {kMlpNorm, kAll, "encoder.layer.#.output.LayerNorm"},
};
constexpr WeightName kBertHead[] = {{kClassifierDense, kAll, "pooler.dense"},
                                    {kClassifierOut, kAll, "classifier", false}};
constexpr WeightName kRobertaHead[] = {{kClassifierDense, kAll, "classifier.dense", false},
                                       {kClassifierOut, kAll, "classifier.out_proj", false}};

constexpr auto WithHead(const WeightName (&head)[2]) {
  std::array<WeightName, std::size(kCommonWeights) + 2> all{};
  std::copy(std::begin(kCommonWeights), std::end(kCommonWeights), all.begin());
  std::copy(std::begin(head), std::end(head), all.end() - 2);
  return all;
}
constexpr auto kBertWeights = WithHead(kBertHead);
constexpr auto kRobertaWeights = WithHead(kRobertaHead);
constexpr const char* kBertModelTypes[] = {"bert"};
constexpr const char* kRobertaModelTypes[] = {"roberta", "xlm-roberta", "camembert"};
constexpr const char* kBertPrefixes[] = {"", "bert."};
constexpr const char* kRobertaPrefixes[] = {"", "roberta."};
// Buffers, the pooler and the pre-training heads.
constexpr const char* kBertUnused[] = {".position_ids",
                                       "pooler.dense.weight",
                                       "pooler.dense.bias",
                                       "cls.predictions.bias",
                                       "cls.predictions.decoder.weight",
                                       "cls.predictions.decoder.bias",
                                       "cls.predictions.transform.dense.weight",
                                       "cls.predictions.transform.dense.bias",
                                       "cls.predictions.transform.LayerNorm.weight",
                                       "cls.predictions.transform.LayerNorm.bias",
                                       "cls.predictions.transform.LayerNorm.gamma",
                                       "cls.predictions.transform.LayerNorm.beta",
                                       "cls.seq_relationship.weight",
                                       "cls.seq_relationship.bias",
                                       "lm_head.bias",
                                       "lm_head.decoder.weight",
                                       "lm_head.decoder.bias",
                                       "lm_head.dense.weight",
                                       "lm_head.dense.bias",
                                       "lm_head.layer_norm.weight",
                                       "lm_head.layer_norm.bias"};

constexpr GgufForm kBertGguf[] = {{.name = "bert",
                                   .fields = kGgufNormFields,
                                   .weights = gguf_names::kEncoder,
                                   .write_fields = &WriteGgufBert,
                                   .head_dim_follows = true,
                                   .fixed_biases = true}};

}  // namespace

extern const Architecture kBert = {.name = "bert",
                                   .model_types = kBertModelTypes,
                                   .parse_config = &ParseBert,
                                   .names = {kBertPrefixes, kBertWeights, kBertUnused},
                                   .gguf = kBertGguf};
extern const Architecture kRoberta = {.name = "roberta",
                                      .model_types = kRobertaModelTypes,
                                      .parse_config = &ParseRoberta,
                                      .names = {kRobertaPrefixes, kRobertaWeights, kBertUnused}};

}  // namespace dunlin::engine
