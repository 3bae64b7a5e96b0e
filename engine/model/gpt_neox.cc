// GPT-NeoX (Pythia, ...): LayerNorm, partly rotated heads, Q, K and V fused head by head, and both terms of a layer
// computed from one residual unless use_parallel_residual is false.
// Source: transformers 5.23, models/gpt_neox.
#include "engine/model/architecture.h"
#include "engine/model/config_words.h"
#include "engine/model/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryWords kRotary = {
    .theta = "rotary_emb_base", .partial_factor = "rotary_pct", .default_partial_factor = 0.25, .partial = true};

void ParseGptNeoX(JsonFields& fields, ModelConfig* config) {
  RefuseUnsupported(fields, {});
  SetSizes(fields, 2048, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  SetHeads(fields, num_heads, num_heads, 0, config);
  config->norm_kind = kernels::NormKind::kLayerNorm;
  config->norm_epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-5));
  config->activation = ParseActivation(fields, "hidden_act", "gelu");
  config->norm_bias = config->mlp_bias = true;
  config->qkv_bias = config->out_bias = fields.BoolOr("attention_bias", true);
  config->parallel_residual = fields.BoolOr("use_parallel_residual", true);
  config->tied_embeddings = fields.BoolOr("tie_word_embeddings", false);
  SetRotary(fields, kRotary, config);
}

using enum WeightSlot;
constexpr FusedPart kAll = FusedPart::kAll;

constexpr WeightName kWeights[] = {
    {kEmbedding, kAll, "embed_in", ShardAxis::kColumn, false, true},
    {kAttentionNorm, kAll, "layers.#.input_layernorm", ShardAxis::kReplicated, false, true},
    {kQkv, FusedPart::kQkvByHead, "layers.#.attention.query_key_value", ShardAxis::kColumn, false, true},
    {kAttentionOut, kAll, "layers.#.attention.dense", ShardAxis::kRow, false, true},
    {kMlpNorm, kAll, "layers.#.post_attention_layernorm", ShardAxis::kReplicated, false, true},
    {kMlpUp, kAll, "layers.#.mlp.dense_h_to_4h", ShardAxis::kColumn, false, true},
    {kMlpDown, kAll, "layers.#.mlp.dense_4h_to_h", ShardAxis::kRow, false, true},
    {kFinalNorm, kAll, "final_layer_norm", ShardAxis::kReplicated, false, true},
    {kHead, kAll, "embed_out", ShardAxis::kColumn, false, false},
};
constexpr const char* kWords[] = {"gpt_neox"};
constexpr const char* kPrefixes[] = {"gpt_neox.", ""};
// The causal mask and the rotation's frequencies.
constexpr const char* kBuffers[] = {".attention.bias", ".attention.masked_bias", ".attention.rotary_emb.inv_freq"};
constexpr OtherName kOtherNames[] = {{"embed_out.", "lm_head."}};  // transformers 5 calls it so

}  // namespace

const Architecture kGptNeoX = {"gpt_neox", kWords, &ParseGptNeoX, kPrefixes, kWeights, kBuffers, kOtherNames};

}  // namespace dunlin::engine
