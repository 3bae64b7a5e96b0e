// GPT-2 as Hugging Face writes it, and nanoGPT: the same layer, nn.Linear orientation, no biases when asked.
// Source: transformers 5.23, models/gpt2; github.com/karpathy/nanoGPT, model.py.
#include "engine/model/architecture.h"
#include "engine/model/config_words.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

void ParseDimensions(JsonFields& fields, const char* context_field, ModelConfig* config) {
  config->num_layers = static_cast<int32_t>(fields.Int("n_layer", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("n_embd", 1, kMaxHiddenDim));
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.Int(context_field, 1, kMaxContextTokens));
  config->ffn_dim = static_cast<int32_t>(fields.IntOr("n_inner", 1, kMaxFfnDim, int64_t{4} * config->hidden_dim));
  const int64_t num_heads = fields.Int("n_head", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm_kind = kernels::NormKind::kLayerNorm;
  config->learned_positions = true;
}

void SetBiases(bool bias, ModelConfig* config) {
  config->norm_bias = config->qkv_bias = config->out_bias = config->mlp_bias = bias;
}

void ParseGpt2(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {"add_cross_attention"});
  ParseDimensions(fields, "n_positions", config);
  SetBiases(true, config);
  config->norm_epsilon = static_cast<float>(fields.NumberOr("layer_norm_epsilon", 1e-12, 1.0, 1e-5));
  config->activation = ParseActivation(fields, "activation_function", "gelu_new");
  config->tied_embeddings = fields.BoolOr("tie_word_embeddings", true);
  if (!fields.BoolOr("scale_attn_weights", true)) config->attention_scale = 1.0F;
  config->inverse_layer_query_scale = fields.BoolOr("scale_attn_by_inverse_layer_idx", false);
  // reorder_and_upcast_attn only moves the same FP32 arithmetic: attention here is FP32 anyway.
}

void ParseNanoGpt(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {});
  ParseDimensions(fields, "block_size", config);
  SetBiases(fields.BoolOr("bias", true), config);
  config->norm_epsilon = 1e-5F;
  config->activation = kernels::ActivationKind::kGeluErf;  // nn.GELU()
  config->tied_embeddings = true;
}

using enum WeightSlot;
constexpr FusedPart kAll = FusedPart::kAll;

// The Q, K and V of c_attn stand one after another: they are the fused matrix already.
template <bool kConv1d>
constexpr WeightName kWeights[] = {
    {kEmbedding, kAll, "wte", ShardAxis::kColumn, false, true},
    {kPositions, kAll, "wpe", ShardAxis::kReplicated, false, true},
    {kAttentionNorm, kAll, "h.#.ln_1", ShardAxis::kReplicated, false, true},
    {kQkv, kAll, "h.#.attn.c_attn", ShardAxis::kColumn, kConv1d, true},
    {kAttentionOut, kAll, "h.#.attn.c_proj", ShardAxis::kRow, kConv1d, true},
    {kMlpNorm, kAll, "h.#.ln_2", ShardAxis::kReplicated, false, true},
    {kMlpUp, kAll, "h.#.mlp.c_fc", ShardAxis::kColumn, kConv1d, true},
    {kMlpDown, kAll, "h.#.mlp.c_proj", ShardAxis::kRow, kConv1d, true},
    {kFinalNorm, kAll, "ln_f", ShardAxis::kReplicated, false, true},
    {kHead, kAll, "lm_head", ShardAxis::kColumn, false, false},
};
constexpr const char* kGpt2Words[] = {"gpt2"};
constexpr const char* kNanoGptWords[] = {"nanogpt"};
constexpr const char* kPrefixes[] = {"transformer.", ""};
constexpr const char* kBuffers[] = {".attn.bias", ".attn.masked_bias"};  // the causal mask

}  // namespace

const Architecture kGpt2 = {"gpt2", kGpt2Words, &ParseGpt2, kPrefixes, kWeights<true>, kBuffers};
const Architecture kNanoGpt = {"nanogpt", kNanoGptWords, &ParseNanoGpt, kPrefixes, kWeights<false>, kBuffers};

}  // namespace dunlin::engine
