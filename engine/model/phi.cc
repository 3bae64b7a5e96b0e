// Phi 1, 1.5 and 2: one LayerNorm that attention and MLP share, both added to one residual, partly rotated heads,
// biases everywhere, the head's included. Source: transformers 5.23, models/phi.
#include "engine/model/architecture.h"
#include "engine/model/config_words.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryWords kRotary = {.default_partial_factor = 0.5, .partial = true};

void ParsePhi(JsonFields& fields, ModelConfig* config) {
  // A tied head would keep a bias of its own: no published model has one.
  RefuseUnsupported(fields, {"qk_layernorm", "tie_word_embeddings"});
  SetSizes(fields, 2048, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, num_heads);
  SetHeads(fields, num_heads, num_kv_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, 0), config);
  config->norm_kind = kernels::NormKind::kLayerNorm;
  config->norm_epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-5));
  config->activation = ParseActivation(fields, "hidden_act", "gelu_new");
  config->norm_bias = config->qkv_bias = config->out_bias = config->mlp_bias = config->head_bias = true;
  config->parallel_residual = config->shared_norm = true;
  SetRotary(fields, kRotary, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kWeights[] = {
    {kEmbedding, kAll, "embed_tokens", ShardAxis::kColumn, false, true},
    {kAttentionNorm, kAll, "layers.#.input_layernorm", ShardAxis::kReplicated, false, true},
    {kQkv, kQuery, "layers.#.self_attn.q_proj", ShardAxis::kColumn, false, true},
    {kQkv, kKey, "layers.#.self_attn.k_proj", ShardAxis::kColumn, false, true},
    {kQkv, kValue, "layers.#.self_attn.v_proj", ShardAxis::kColumn, false, true},
    {kAttentionOut, kAll, "layers.#.self_attn.dense", ShardAxis::kRow, false, true},
    {kMlpUp, kAll, "layers.#.mlp.fc1", ShardAxis::kColumn, false, true},
    {kMlpDown, kAll, "layers.#.mlp.fc2", ShardAxis::kRow, false, true},
    {kFinalNorm, kAll, "final_layernorm", ShardAxis::kReplicated, false, true},
    {kHead, kAll, "lm_head", ShardAxis::kColumn, false, false},
};
constexpr const char* kWords[] = {"phi"};
constexpr const char* kPrefixes[] = {"model.", ""};
constexpr const char* kBuffers[] = {".rotary_emb.inv_freq"};

}  // namespace

const Architecture kPhi = {"phi", kWords, &ParsePhi, kPrefixes, kWeights, kBuffers};

}  // namespace dunlin::engine
