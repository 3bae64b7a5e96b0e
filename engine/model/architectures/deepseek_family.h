// SPDX-License-Identifier: Apache-2.0
// Config fields and weight names of models with DeepSeek's multi-head latent attention, with experts or without.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

#include "engine/model/architectures/expert_fields.h"
#include "engine/model/architectures/llama_family.h"

namespace dunlin::engine {

// transformers' defaults for fields that config.json omits.
struct DeepseekDefaults {
  int64_t max_context;
  double norm_epsilon = 1e-6;
  bool tied_embeddings = false;
  const char* context_field = "max_position_embeddings";
  int64_t query_rank = 1536;  // q_lora_rank; 0: none
  int64_t kv_rank = 512;      // kv_lora_rank
  int64_t plain_dim = 128;    // qk_nope_head_dim
  // rope_parameters may have a partial_rotary_factor: qk_rope_head_dim's share of a head.
  bool names_share = false;
  // partial_rotary_factor is that of other layers: the rotated part of a head is rotated whole, whatever it says.
  bool ignores_share = false;
  double rope_theta = 10000.0;
};

// Sizes, latent attention, norm, activation, tying and rotary positions.
void ParseDeepseekFamily(JsonFields& fields, const DeepseekDefaults& defaults, ModelConfig* config);

// Experts with shared ones (n_shared_experts) in all but the first layers (first_k_dense_replace or mlp_layer_types);
// callers read the rule of the router. num_shared, num_dense: transformers' defaults.
void ParseDeepseekExperts(JsonFields& fields, const ExpertDefaults& defaults, int64_t num_shared, int64_t num_dense,
                          ModelConfig* config);

// Without a rank of the queries their one projection has another name.
inline constexpr WeightName kLatentAttentionNames[] = {
    {WeightSlot::kQueryDown, FusedPart::kAll, "layers.#.self_attn.q_a_proj"},
    {WeightSlot::kQueryDownNorm, FusedPart::kAll, "layers.#.self_attn.q_a_layernorm"},
    {WeightSlot::kLatentQuery, FusedPart::kAll, "layers.#.self_attn.q_b_proj"},
    {WeightSlot::kKvDown, FusedPart::kLatentAndRotary, "layers.#.self_attn.kv_a_proj_with_mqa"},
    {WeightSlot::kKvDownNorm, FusedPart::kAll, "layers.#.self_attn.kv_a_layernorm"},
    {WeightSlot::kKeyUp, FusedPart::kAll, "layers.#.self_attn.kv_b_proj.@.key", true, true},
    {WeightSlot::kValueUp, FusedPart::kAll, "layers.#.self_attn.kv_b_proj.@.value"},
};
// The Llama family's names but those of Q, K and V, those of latent attention, and others.
template <size_t... kCounts>
constexpr auto WithLatentAttention(const WeightName (&... others)[kCounts]) {
  const auto all = WithNorms(kLlamaNorms, kLatentAttentionNames, others...);
  std::array<WeightName, all.size() - 3> names{};
  std::copy_if(all.begin(), all.end(), names.begin(),
               [](const WeightName& name) { return name.slot != WeightSlot::kQkv; });
  return names;
}
inline constexpr auto kDeepseekWeights = WithLatentAttention(kLlamaExperts, kDeepseekExperts);
inline constexpr NameAlias kDeepseekAliases[] = {{"q_b_proj", "q_proj"}, kTextPartAliases[0]};

}  // namespace dunlin::engine
