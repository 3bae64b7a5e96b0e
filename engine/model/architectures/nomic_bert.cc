// SPDX-License-Identifier: Apache-2.0
// Nomic's BERT (nomic-embed-text): BERT with rotary positions, SwiGLU and no biases but those of its norms. Configs
// have the fields of transformers 5 or, with the publisher's own code, those of GPT-2. Source: transformers 5.23,
// models/nomic_bert; nomic-ai/nomic-bert-2048, configuration_hf_nomic_bert.py.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/architectures/gguf_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryFields kNomicBertRotary = {.default_theta = 1000.0};
constexpr RotaryFields kPublishedRotary = {.theta = "rotary_emb_base",
                                           .partial_factor = "rotary_emb_fraction",
                                           .default_partial_factor = 0.0,
                                           .partial = true};
constexpr int64_t kNomicBertMaxTokenTypes = 1024;
constexpr int64_t kNomicBertDefaultContext = 2048;

void ParsePublishedFields(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"prenorm", "parallel_block", "use_rms_norm", "qkv_proj_bias", "mlp_fc1_bias",
                             "mlp_fc2_bias", "rotary_emb_interleaved", "causal"});
  for (const char* scaling : {"rotary_emb_scale_base", "rotary_scaling_factor", "num_experts"}) {
    if (fields.Has(scaling)) fields.Fail(absl::StrCat(scaling, " is set, which is not supported"));
  }
  if (const std::string name = fields.TextOr("activation_function", "swiglu"); name != "swiglu") {
    fields.Fail(absl::StrCat("activation_function is '", name.substr(0, 32), "'; known: swiglu"));
  }
  config->num_layers = static_cast<int32_t>(fields.Int("n_layer", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("n_embd", 1, kMaxHiddenDim));
  config->mlp.ffn_dim = static_cast<int32_t>(fields.IntOr("n_inner", 1, kMaxFfnDim, 4 * int64_t{config->hidden_dim}));
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  // Beyond the trained context the rotation would follow the length of a text (dynamic NTK scaling).
  const int64_t positions = fields.IntOr("n_positions", 1, kMaxContextTokens, kNomicBertDefaultContext);
  const int64_t trained = fields.IntOr("max_trained_positions", 1, kMaxContextTokens, positions);
  config->max_context = static_cast<int32_t>(std::min(positions, trained));
  const int64_t num_heads = fields.Int("n_head", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-12));
  config->mlp.activation = kernels::ActivationKind::kSilu;
  SetRotary(fields, kPublishedRotary, config);
}

void ParseFields(JsonFields& fields, ModelConfig* config) {
  SetSizes(fields, kNomicBertDefaultContext, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, 0), config);
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-12));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "silu");
  SetRotary(fields, kNomicBertRotary, config);
}

void ParseNomicBert(JsonFields& fields, ModelConfig* config) {
  config->kind = ModelKind::kEncoder;
  config->attention.causal = false;
  config->norm.placement = NormPlacement::kPost;
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.bias = true;
  config->mlp.gated = true;
  config->embedding.num_token_types =
      static_cast<int32_t>(fields.IntOr("type_vocab_size", 0, kNomicBertMaxTokenTypes, 2));
  if (fields.Has("n_embd")) return ParsePublishedFields(fields, config);
  ParseFields(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kNomicBertWeights[] = {
    {kEmbedding, kAll, "embeddings.word_embeddings"},
    {kTokenTypes, kAll, "embeddings.token_type_embeddings"},
    {kEmbeddingNorm, kAll, "emb_ln"},
    {kQkv, kAll, "encoder.layers.#.attn.Wqkv"},
    {kAttentionOut, kAll, "encoder.layers.#.attn.out_proj"},
    {kAttentionNorm, kAll, "encoder.layers.#.norm1"},
    {kMlpUp, kGate, "encoder.layers.#.mlp.fc12"},
    {kMlpUp, kUp, "encoder.layers.#.mlp.fc11"},
    {kMlpDown, kAll, "encoder.layers.#.mlp.fc2"},
    {kMlpNorm, kAll, "encoder.layers.#.norm2"},
};
constexpr const char* kNomicBertTypes[] = {"nomic_bert"};
constexpr const char* kNomicBertPrefixes[] = {"", "bert.", "nomic_bert."};
constexpr const char* kNomicBertUnused[] = {"pooler.dense.weight", "pooler.dense.bias", "inv_freq"};

constexpr GgufForm kNomicBertGguf[] = {{.name = "nomic-bert",
                                        .fields = kGgufNormFields,
                                        .weights = gguf_names::kEncoderFused,
                                        .write_fields = &WriteGgufBert,
                                        .fixed_biases = true}};

}  // namespace

extern const Architecture kNomicBert = {.name = "nomic_bert",
                                        .model_types = kNomicBertTypes,
                                        .parse_config = &ParseNomicBert,
                                        .names = {kNomicBertPrefixes, kNomicBertWeights, kNomicBertUnused},
                                        .gguf = kNomicBertGguf};

}  // namespace dunlin::engine
