// SPDX-License-Identifier: Apache-2.0
// GPT-2 as Hugging Face stores it, and nanoGPT: the same layer in nn.Linear orientation, with optional biases.
// Source: transformers 5.23, models/gpt2; github.com/karpathy/nanoGPT, model.py.
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/spec/model_limits.h"
#include "engine/request/types.h"

namespace dunlin::engine {
namespace {

void ParseDimensions(JsonFields& fields, const char* context_field, ModelConfig* config) {
  config->num_layers = static_cast<int32_t>(fields.Int("n_layer", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("n_embd", 1, kMaxHiddenDim));
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.Int(context_field, 1, kMaxContextTokens));
  config->mlp.ffn_dim = static_cast<int32_t>(fields.IntOr("n_inner", 1, kMaxFfnDim, int64_t{4} * config->hidden_dim));
  const int64_t num_heads = fields.Int("n_head", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->embedding.learned_positions = true;
}

void SetBiases(bool bias, ModelConfig* config) {
  config->norm.bias = config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = bias;
}

void ParseGpt2(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"add_cross_attention"});
  ParseDimensions(fields, "n_positions", config);
  SetBiases(true, config);
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  config->mlp.activation = ParseActivation(fields, "activation_function", "gelu_new");
  config->head.tied = fields.BoolOr("tie_word_embeddings", true);
  if (!fields.BoolOr("scale_attn_weights", true)) config->attention.scale = 1.0F;
  config->attention.inverse_layer_scale = fields.BoolOr("scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn is ignored: it computes attention in FP32, as this server always does.
}

void ParseNanoGpt(JsonFields& fields, ModelConfig* config) {
  ParseDimensions(fields, "block_size", config);
  SetBiases(fields.BoolOr("bias", true), config);
  config->norm.epsilon = 1e-5F;
  config->mlp.activation = kernels::ActivationKind::kGeluErf;  // nn.GELU()
  config->head.tied = true;
}

using enum WeightSlot;
using enum FusedPart;

// c_attn is the fused matrix already: Q, then K, then V.
template <bool kConv1d>
constexpr WeightName kGpt2Weights[] = {
    {kEmbedding, kAll, "wte"},
    {kPositions, kAll, "wpe"},
    {kAttentionNorm, kAll, "h.#.ln_1"},
    {kQkv, kAll, "h.#.attn.c_attn", true, kConv1d},
    {kAttentionOut, kAll, "h.#.attn.c_proj", true, kConv1d},
    {kMlpNorm, kAll, "h.#.ln_2"},
    {kMlpUp, kAll, "h.#.mlp.c_fc", true, kConv1d},
    {kMlpDown, kAll, "h.#.mlp.c_proj", true, kConv1d},
    {kFinalNorm, kAll, "ln_f"},
    {kHead, kAll, "lm_head", false},
};
constexpr const char* kGpt2ModelTypes[] = {"gpt2"};
constexpr const char* kNanoGptModelTypes[] = {"nanogpt"};
constexpr const char* kGpt2Prefixes[] = {"transformer.", ""};
constexpr const char* kGpt2Buffers[] = {".attn.bias", ".attn.masked_bias"};  // the causal mask
// And the head, whose values are the embedding's.
constexpr const char* kNanoGptBuffers[] = {".attn.bias", ".attn.masked_bias", "lm_head.weight"};

constexpr GgufFieldName kGpt2GgufFields[] = {{"block_count", "n_layer"},           {"embedding_length", "n_embd"},
                                             {"feed_forward_length", "n_inner"},   {"attention.head_count", "n_head"},
                                             {kGgufNormKey, "layer_norm_epsilon"}, {"context_length", "n_positions"}};
constexpr GgufForm kGpt2Gguf[] = {{.name = "gpt2",
                                   .fields = kGpt2GgufFields,
                                   .weights = gguf_names::kPlainFused,
                                   .head_dim_follows = true,
                                   .fixed_biases = true}};

}  // namespace

extern const Architecture kGpt2 = {.name = "gpt2",
                                   .model_types = kGpt2ModelTypes,
                                   .parse_config = &ParseGpt2,
                                   .names = {kGpt2Prefixes, kGpt2Weights<true>, kGpt2Buffers},
                                   .gguf = kGpt2Gguf};
extern const Architecture kNanoGpt = {.name = "nanogpt",
                                      .model_types = kNanoGptModelTypes,
                                      .parse_config = &ParseNanoGpt,
                                      .names = {kGpt2Prefixes, kGpt2Weights<false>, kNanoGptBuffers}};

}  // namespace dunlin::engine
