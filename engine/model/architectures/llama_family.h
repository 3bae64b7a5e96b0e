// SPDX-License-Identifier: Apache-2.0
// Config fields and weight names of the Llama family: RMSNorm, rotary positions, grouped-query attention, gated MLP.
// Each architecture of the family passes its defaults and adds its own fields and norms.
#pragma once

#include <array>
#include <cstddef>

#include "engine/model/architectures/architecture.h"
#include "engine/model/architectures/rotary_scaling.h"

namespace dunlin::engine {

// transformers' defaults for fields that config.json omits.
struct LlamaDefaults {
  int64_t max_context;                          // max_position_embeddings
  int64_t head_dim = 0;                         // 0: hidden_size / num_attention_heads
  int64_t ffn_dim = 0;                          // intermediate_size; 0: the field is required
  int64_t vocab_size = 0;                       // as that
  int64_t num_heads = 0;                        // num_attention_heads, as that
  int64_t num_kv_heads = 0;                     // 0: as many as heads
  const char* activation_field = "hidden_act";  // null: the architecture reads it
  const char* activation = "silu";
  bool tied_embeddings = false;
  double norm_epsilon = 1e-6;
  RotaryFields rotary = {};
};

// Sizes, heads, norm, activation, tying and rotary positions; no biases.
void ParseLlamaFamily(JsonFields& fields, const LlamaDefaults& defaults, ModelConfig* config);

// The matrices and the norms that the whole family shares.
inline constexpr WeightName kLlamaCommonWeights[] = {
    {WeightSlot::kEmbedding, FusedPart::kAll, "embed_tokens"},
    {WeightSlot::kAttentionNorm, FusedPart::kAll, "layers.#.input_layernorm"},
    {WeightSlot::kQkv, FusedPart::kQuery, "layers.#.self_attn.q_proj"},
    {WeightSlot::kQkv, FusedPart::kKey, "layers.#.self_attn.k_proj"},
    {WeightSlot::kQkv, FusedPart::kValue, "layers.#.self_attn.v_proj"},
    {WeightSlot::kAttentionOut, FusedPart::kAll, "layers.#.self_attn.o_proj"},
    {WeightSlot::kMlpUp, FusedPart::kGate, "layers.#.mlp.gate_proj"},
    {WeightSlot::kMlpUp, FusedPart::kUp, "layers.#.mlp.up_proj"},
    {WeightSlot::kMlpDown, FusedPart::kAll, "layers.#.mlp.down_proj"},
    {WeightSlot::kFinalNorm, FusedPart::kAll, "norm"},
    {WeightSlot::kHead, FusedPart::kAll, "lm_head", false},
};

// kLlamaCommonWeights and an architecture's other weights.
template <size_t... kCounts>
constexpr auto WithNorms(const WeightName (&... others)[kCounts]) {
  std::array<WeightName, std::size(kLlamaCommonWeights) + (kCounts + ...)> all{};
  size_t at = 0;
  const auto append = [&](const auto& names) {
    for (const WeightName& name : names) all[at++] = name;
  };
  append(kLlamaCommonWeights);
  (append(others), ...);
  return all;
}

// The same without the names of the MLP's matrices.
template <size_t... kCounts>
constexpr auto WithoutMlp(const WeightName (&... others)[kCounts]) {
  constexpr size_t kMlpNames = 3;
  const auto all = WithNorms(others...);
  std::array<WeightName, all.size() - kMlpNames> names{};
  size_t at = 0;
  for (size_t i = 0; i < all.size(); ++i) {
    const bool of_mlp = i < std::size(kLlamaCommonWeights) &&
                        (all[i].slot == WeightSlot::kMlpUp || all[i].slot == WeightSlot::kMlpDown);
    if (!of_mlp) names[at++] = all[i];
  }
  return names;
}

inline constexpr WeightName kLlamaNorms[] = {
    {WeightSlot::kMlpNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
};
inline constexpr auto kLlamaWeights = WithNorms(kLlamaNorms);
// With an MLP of two matrices.
inline constexpr auto kLlamaPlainWeights = [] {
  std::array<WeightName, kLlamaWeights.size() - 1> names{};
  size_t at = 0;
  for (WeightName name : kLlamaWeights) {
    if (name.part == FusedPart::kGate) continue;
    if (name.part == FusedPart::kUp) name.part = FusedPart::kAll;
    names[at++] = name;
  }
  return names;
}();
// With a norm over each head of Q and K.
inline constexpr WeightName kLlamaQkNorms[] = {
    {WeightSlot::kMlpNorm, FusedPart::kAll, "layers.#.post_attention_layernorm"},
    {WeightSlot::kQueryNorm, FusedPart::kAll, "layers.#.self_attn.q_norm"},
    {WeightSlot::kKeyNorm, FusedPart::kAll, "layers.#.self_attn.k_norm"},
};
// Experts in place of the MLP.
inline constexpr WeightName kLlamaExperts[] = {
    {WeightSlot::kRouter, FusedPart::kExperts, "layers.#.mlp.gate"},
    {WeightSlot::kExpertUp, FusedPart::kGate, "layers.#.mlp.experts.@.gate_proj"},
    {WeightSlot::kExpertUp, FusedPart::kUp, "layers.#.mlp.experts.@.up_proj"},
    {WeightSlot::kExpertDown, FusedPart::kAll, "layers.#.mlp.experts.@.down_proj"},
};
// In place of kLlamaExperts, in checkpoints that stack them.
inline constexpr WeightName kLlamaStackedExperts[] = {
    {WeightSlot::kRouter, FusedPart::kExperts, "layers.#.mlp.gate"},
    {.slot = WeightSlot::kExpertUp,
     .part = FusedPart::kAll,
     .name = "layers.#.mlp.experts.@.gate_up_proj",
     .weight = ""},
    {.slot = WeightSlot::kExpertDown,
     .part = FusedPart::kAll,
     .name = "layers.#.mlp.experts.@.down_proj",
     .weight = ""},
};
// What DeepSeek's rule of routing adds to kLlamaExperts: a correction of the scores, and the shared experts.
inline constexpr WeightName kDeepseekExperts[] = {
    {.slot = WeightSlot::kRouterCorrection,
     .part = FusedPart::kAll,
     .name = "layers.#.mlp.gate.e_score_correction_bias",
     .weight = ""},
    {WeightSlot::kSharedUp, FusedPart::kGate, "layers.#.mlp.shared_experts.gate_proj"},
    {WeightSlot::kSharedUp, FusedPart::kUp, "layers.#.mlp.shared_experts.up_proj"},
    {WeightSlot::kSharedDown, FusedPart::kAll, "layers.#.mlp.shared_experts.down_proj"},
};
// MiniMax's experts, with a correction of the scores.
inline constexpr WeightName kMinimaxExperts[] = {
    {WeightSlot::kRouter, FusedPart::kExperts, "layers.#.block_sparse_moe.gate"},
    {.slot = WeightSlot::kRouterCorrection,
     .part = FusedPart::kAll,
     .name = "layers.#.block_sparse_moe.e_score_correction_bias",
     .weight = ""},
    {WeightSlot::kExpertUp, FusedPart::kGate, "layers.#.block_sparse_moe.experts.@.w1"},
    {WeightSlot::kExpertUp, FusedPart::kUp, "layers.#.block_sparse_moe.experts.@.w3"},
    {WeightSlot::kExpertDown, FusedPart::kAll, "layers.#.block_sparse_moe.experts.@.w2"},
};
// Hunyuan's experts without their router, and an MLP that every token takes.
inline constexpr WeightName kHunyuanExperts[] = {
    {WeightSlot::kExpertUp, FusedPart::kGate, "layers.#.mlp.experts.@.gate_proj"},
    {WeightSlot::kExpertUp, FusedPart::kUp, "layers.#.mlp.experts.@.up_proj"},
    {WeightSlot::kExpertDown, FusedPart::kAll, "layers.#.mlp.experts.@.down_proj"},
    {WeightSlot::kSharedUp, FusedPart::kGate, "layers.#.mlp.shared_mlp.gate_proj"},
    {WeightSlot::kSharedUp, FusedPart::kUp, "layers.#.mlp.shared_mlp.up_proj"},
    {WeightSlot::kSharedDown, FusedPart::kAll, "layers.#.mlp.shared_mlp.down_proj"},
};
inline constexpr const char* kLlamaPrefixes[] = {"model.", ""};
inline constexpr const char* kLlamaBuffers[] = {".rotary_emb.inv_freq"};
// Of families that multimodal models have as their text part, whose head may stand under its prefix.
inline constexpr NameAlias kTextPartAliases[] = {{"lm_head", "language_model.lm_head"}};

}  // namespace dunlin::engine
