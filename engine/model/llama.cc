// Llama and what is written in its words: RMSNorm, rotary positions, grouped-query attention, gated SiLU.
// Source: transformers 5.23, models/llama.
#include "absl/strings/str_cat.h"
#include "engine/model/architecture.h"
#include "engine/model/config_words.h"
#include "engine/model/model_limits.h"
#include "engine/model/rotary_scaling.h"

namespace dunlin::engine {
namespace {

void SetRotary(JsonFields& fields, ModelConfig* config) {
  const RotaryScaling scaling = ParseRotaryScaling(fields, config->max_context);
  if (fields.NumberOr("partial_rotary_factor", 0.0, 1.0, 1.0) != 1.0) {
    fields.Fail("partial_rotary_factor is not 1, which is not supported here");
  }
  if (config->head_dim % 2 != 0) {
    fields.Fail(absl::StrCat("head_dim is ", config->head_dim, "; rotary positions need an even one"));
  }
  if (!fields.status().ok()) return;
  config->rotary_dim = config->head_dim;
  config->inv_freq = InverseFrequencies(scaling, config->rotary_dim);
  config->rotary_attention_factor = RotaryAttentionFactor(scaling);
}

void ParseLlama(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {});
  config->num_layers = static_cast<int32_t>(fields.Int("num_hidden_layers", 1, kMaxLayers));
  config->hidden_dim = static_cast<int32_t>(fields.Int("hidden_size", 1, kMaxHiddenDim));
  config->ffn_dim = static_cast<int32_t>(fields.Int("intermediate_size", 1, kMaxFfnDim));
  config->vocab_size = static_cast<int32_t>(fields.Int("vocab_size", 1, kMaxVocabSize));
  config->max_context = static_cast<int32_t>(fields.IntOr("max_position_embeddings", 1, kMaxContextTokens, 2048));
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, num_heads);
  SetHeads(fields, num_heads, num_kv_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, 0), config);

  config->norm_kind = kernels::NormKind::kRmsNorm;
  config->norm_epsilon = static_cast<float>(fields.NumberOr("rms_norm_eps", 1e-12, 1.0, 1e-6));
  config->activation = ParseActivation(fields, "hidden_act", "silu");
  config->gated_mlp = true;
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", false);
  config->mlp_bias = fields.BoolOr("mlp_bias", false);
  config->tied_embeddings = fields.BoolOr("tie_word_embeddings", false);
  SetRotary(fields, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kWeights[] = {
    {kEmbedding, kAll, "embed_tokens", ShardAxis::kColumn, false, true},
    {kAttentionNorm, kAll, "layers.#.input_layernorm", ShardAxis::kReplicated, false, true},
    {kQkv, kQuery, "layers.#.self_attn.q_proj", ShardAxis::kColumn, false, true},
    {kQkv, kKey, "layers.#.self_attn.k_proj", ShardAxis::kColumn, false, true},
    {kQkv, kValue, "layers.#.self_attn.v_proj", ShardAxis::kColumn, false, true},
    {kAttentionOut, kAll, "layers.#.self_attn.o_proj", ShardAxis::kRow, false, true},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm", ShardAxis::kReplicated, false, true},
    {kMlpUp, kGate, "layers.#.mlp.gate_proj", ShardAxis::kColumn, false, true},
    {kMlpUp, kUp, "layers.#.mlp.up_proj", ShardAxis::kColumn, false, true},
    {kMlpDown, kAll, "layers.#.mlp.down_proj", ShardAxis::kRow, false, true},
    {kFinalNorm, kAll, "norm", ShardAxis::kReplicated, false, true},
    {kHead, kAll, "lm_head", ShardAxis::kColumn, false, false},
};
constexpr const char* kWords[] = {"llama"};
constexpr const char* kPrefixes[] = {"model.", ""};
constexpr const char* kBuffers[] = {".rotary_emb.inv_freq"};

}  // namespace

const Architecture kLlama = {"llama", kWords, &ParseLlama, kPrefixes, kWeights, kBuffers};

}  // namespace dunlin::engine
