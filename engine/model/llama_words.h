// What the architectures written in Llama's words share: RMSNorm, rotary positions, grouped-query attention, a gated
// MLP. A row gives its defaults and adds what is its own.
#pragma once

#include <array>
#include <cstddef>

#include "engine/model/architecture.h"

namespace dunlin::engine {

// What transformers takes for a field that config.json leaves out.
struct LlamaDefaults {
  int64_t max_context;   // max_position_embeddings
  int64_t head_dim = 0;  // 0: hidden_size / num_attention_heads
  const char* activation_word = "hidden_act";
  const char* activation = "silu";
  bool tied_embeddings = false;
};

// Sizes, heads, norm, activation, tying and rotary positions; no biases.
void ParseLlamaWords(JsonFields& fields, const LlamaDefaults& defaults, ModelConfig* config);

// The matrices, and the norms that all of these have in common.
inline constexpr WeightName kLlamaMatrices[] = {
    {WeightSlot::kEmbedding, FusedPart::kAll, "embed_tokens", ShardAxis::kColumn, false, true},
    {WeightSlot::kAttentionNorm, FusedPart::kAll, "layers.#.input_layernorm", ShardAxis::kReplicated, false, true},
    {WeightSlot::kQkv, FusedPart::kQuery, "layers.#.self_attn.q_proj", ShardAxis::kColumn, false, true},
    {WeightSlot::kQkv, FusedPart::kKey, "layers.#.self_attn.k_proj", ShardAxis::kColumn, false, true},
    {WeightSlot::kQkv, FusedPart::kValue, "layers.#.self_attn.v_proj", ShardAxis::kColumn, false, true},
    {WeightSlot::kAttentionOut, FusedPart::kAll, "layers.#.self_attn.o_proj", ShardAxis::kRow, false, true},
    {WeightSlot::kMlpUp, FusedPart::kGate, "layers.#.mlp.gate_proj", ShardAxis::kColumn, false, true},
    {WeightSlot::kMlpUp, FusedPart::kUp, "layers.#.mlp.up_proj", ShardAxis::kColumn, false, true},
    {WeightSlot::kMlpDown, FusedPart::kAll, "layers.#.mlp.down_proj", ShardAxis::kRow, false, true},
    {WeightSlot::kFinalNorm, FusedPart::kAll, "norm", ShardAxis::kReplicated, false, true},
    {WeightSlot::kHead, FusedPart::kAll, "lm_head", ShardAxis::kColumn, false, false},
};

// kLlamaMatrices and the row's other norms.
template <size_t kCount>
constexpr auto WithNorms(const WeightName (&norms)[kCount]) {
  std::array<WeightName, std::size(kLlamaMatrices) + kCount> all{};
  size_t at = 0;
  for (const WeightName& name : kLlamaMatrices) all[at++] = name;
  for (const WeightName& name : norms) all[at++] = name;
  return all;
}

inline constexpr WeightName kLlamaNorms[] = {
    {WeightSlot::kMlpNorm, FusedPart::kAll, "layers.#.post_attention_layernorm", ShardAxis::kReplicated, false, true},
};
inline constexpr auto kLlamaWeights = WithNorms(kLlamaNorms);
inline constexpr const char* kLlamaPrefixes[] = {"model.", ""};
inline constexpr const char* kLlamaBuffers[] = {".rotary_emb.inv_freq"};

}  // namespace dunlin::engine
