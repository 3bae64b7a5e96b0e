// SPDX-License-Identifier: Apache-2.0
// Phi 1, 1.5 and 2: a parallel residual with one LayerNorm for attention and MLP, partially rotated heads, and biases
// on every linear layer and the head. Source: transformers 5.23, models/phi.
#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/config_fields.h"
#include "engine/model/spec/model_limits.h"

namespace dunlin::engine {
namespace {

constexpr RotaryFields kPhiRotary = {.default_partial_factor = 0.5, .partial = true};

void ParsePhi(JsonFields& fields, ModelConfig* config) {
  // A tied head would still need its own bias; no published model has one.
  RefuseUnsupported(fields, {"qk_layernorm", "tie_word_embeddings"});
  SetSizes(fields, 2048, config);
  const int64_t num_heads = fields.Int("num_attention_heads", 1, kMaxHeads);
  const int64_t num_kv_heads = fields.IntOr("num_key_value_heads", 1, kMaxHeads, num_heads);
  SetHeads(fields, num_heads, num_kv_heads, fields.IntOr("head_dim", 1, kMaxHeadDim, 0), config);
  config->norm.kind = kernels::NormKind::kLayerNorm;
  config->norm.epsilon = static_cast<float>(fields.NumberOr("layer_norm_eps", 1e-12, 1.0, 1e-5));
  config->mlp.activation = ParseActivation(fields, "hidden_act", "gelu_new");
  config->norm.bias = config->attention.qkv_bias = config->attention.out_bias = config->mlp.bias = config->head.bias =
      true;
  config->parallel_residual = config->norm.shared = true;
  SetRotary(fields, kPhiRotary, config);
}

using enum WeightSlot;
using enum FusedPart;

constexpr WeightName kPhiWeights[] = {
    {kEmbedding, kAll, "embed_tokens"},          {kAttentionNorm, kAll, "layers.#.input_layernorm"},
    {kQkv, kQuery, "layers.#.self_attn.q_proj"}, {kQkv, kKey, "layers.#.self_attn.k_proj"},
    {kQkv, kValue, "layers.#.self_attn.v_proj"}, {kAttentionOut, kAll, "layers.#.self_attn.dense"},
    {kMlpUp, kAll, "layers.#.mlp.fc1"},          {kMlpDown, kAll, "layers.#.mlp.fc2"},
    {kFinalNorm, kAll, "final_layernorm"},       {kHead, kAll, "lm_head", false},
};
constexpr const char* kPhiTypes[] = {"phi"};
constexpr const char* kPhiPrefixes[] = {"model.", ""};
constexpr const char* kPhiBuffers[] = {".rotary_emb.inv_freq"};

constexpr GgufForm kPhiGguf[] = {{.name = "phi2",
                                  .fields = kGgufNormFields,
                                  .weights = gguf_names::kPlainFused,
                                  .tensor = kGgufFusedQkv,
                                  .partial_rotary_field = "partial_rotary_factor",
                                  .fixed_biases = true,
                                  .never_tied = true},
                                 {.name = "phi2",
                                  .fields = kGgufNormFields,
                                  .weights = gguf_names::kPlain,
                                  .partial_rotary_field = "partial_rotary_factor",
                                  .fixed_biases = true,
                                  .never_tied = true}};

}  // namespace

extern const Architecture kPhi = {.name = "phi",
                                  .model_types = kPhiTypes,
                                  .parse_config = &ParsePhi,
                                  .names = {kPhiPrefixes, kPhiWeights, kPhiBuffers},
                                  .gguf = kPhiGguf};

}  // namespace dunlin::engine
