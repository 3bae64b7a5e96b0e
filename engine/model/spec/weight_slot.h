// SPDX-License-Identifier: Apache-2.0
// The weights of a model by role, and the shape of each. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::engine {

enum class WeightSlot : uint8_t {
  kEmbedding,
  kPositions,
  kTokenTypes,
  kEmbeddingNorm,
  kAttentionNorm,
  kQkv,
  kQueryNorm,
  kKeyNorm,
  kAttentionSinks,
  kQueryDown,
  kQueryDownNorm,
  kLatentQuery,
  kKvDown,
  kKvDownNorm,
  kKeyUp,
  kValueUp,
  kAttentionOut,
  kPostAttentionNorm,
  kMlpNorm,
  kPostMlpNorm,
  kMlpUp,
  kMlpDown,
  kRouter,
  kRouterCorrection,
  kExpertUp,
  kExpertDown,
  kSharedUp,
  kSharedDown,
  kFinalNorm,
  kHead,
  kClassifierDense,
  kClassifierNorm,
  kClassifierOut,
};
inline constexpr size_t kNumWeightSlots = static_cast<size_t>(WeightSlot::kClassifierOut) + 1;

constexpr bool IsNorm(WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kEmbeddingNorm:
    case WeightSlot::kAttentionNorm:
    case WeightSlot::kQueryNorm:
    case WeightSlot::kKeyNorm:
    case WeightSlot::kQueryDownNorm:
    case WeightSlot::kKvDownNorm:
    case WeightSlot::kPostAttentionNorm:
    case WeightSlot::kMlpNorm:
    case WeightSlot::kPostMlpNorm:
    case WeightSlot::kFinalNorm:
    case WeightSlot::kClassifierNorm:
      return true;
    default:
      return false;
  }
}

// Whether the slot is an FP32 vector, not a matrix.
constexpr bool IsVector(WeightSlot slot) {
  return IsNorm(slot) || slot == WeightSlot::kRouterCorrection || slot == WeightSlot::kAttentionSinks;
}

// Whether each layer has one, or one for each expert or head.
constexpr bool IsPerLayer(WeightSlot slot) {
  return slot >= WeightSlot::kAttentionNorm && slot <= WeightSlot::kSharedDown;
}
constexpr bool IsPerExpert(WeightSlot slot) {
  return slot == WeightSlot::kExpertUp || slot == WeightSlot::kExpertDown;
}
constexpr bool IsPerHead(WeightSlot slot) {
  return slot == WeightSlot::kKeyUp || slot == WeightSlot::kValueUp;
}
// Weights of a slot in a layer that has it, or in the model.
constexpr int32_t NumWeights(const ModelConfig& config, WeightSlot slot) {
  return IsPerExpert(slot) ? config.routing.num_experts : IsPerHead(slot) ? config.num_heads : 1;
}

// One weight of a model.
struct WeightPlace {
  WeightSlot slot;
  int32_t layer = 0;  // where the slot is per layer
  int32_t index = 0;  // of the expert or head, where it is per one
};

// Whether the slot exists in this layer (0 where it is not per layer), and whether it has a bias. A tied head does not
// exist: it is the embedding.
constexpr bool HasSlot(const ModelConfig& config, WeightSlot slot, int32_t layer) {
  switch (slot) {
    case WeightSlot::kPositions:
      return config.learned_positions;
    case WeightSlot::kQueryNorm:
    case WeightSlot::kKeyNorm:
      return config.qk_norm;
    case WeightSlot::kAttentionSinks:
      return config.attention_sinks;
    case WeightSlot::kQkv:
      return !config.has_latent_attention();
    case WeightSlot::kQueryDown:
    case WeightSlot::kQueryDownNorm:
      return config.latent.query_rank > 0;
    case WeightSlot::kLatentQuery:
    case WeightSlot::kKvDown:
    case WeightSlot::kKvDownNorm:
    case WeightSlot::kKeyUp:
    case WeightSlot::kValueUp:
      return config.has_latent_attention();
    case WeightSlot::kAttentionNorm:
      return config.norm_placement != NormPlacement::kPostInside && !(layer == 0 && config.first_norm_absent);
    case WeightSlot::kMlpNorm:
      return !config.shared_norm && config.norm_placement != NormPlacement::kPostInside;
    case WeightSlot::kPostAttentionNorm:
    case WeightSlot::kPostMlpNorm:
      return config.has_post_norms();
    case WeightSlot::kHead:
      return !config.is_encoder() && !config.tied_embeddings;
    case WeightSlot::kClassifierDense:
    case WeightSlot::kClassifierOut:
      return config.num_labels > 0;
    case WeightSlot::kClassifierNorm:
      return config.num_labels > 0 && config.classifier_norm;
    case WeightSlot::kTokenTypes:
      return config.num_token_types > 0;
    case WeightSlot::kEmbeddingNorm:
      return config.has_embedding_norm();
    case WeightSlot::kFinalNorm:
      return config.norm_placement != NormPlacement::kPost;
    case WeightSlot::kMlpUp:
    case WeightSlot::kMlpDown:
      return !config.has_experts(layer);
    case WeightSlot::kRouter:
    case WeightSlot::kExpertUp:
    case WeightSlot::kExpertDown:
      return config.has_experts(layer);
    case WeightSlot::kRouterCorrection:
      return config.router_correction && config.has_experts(layer);
    case WeightSlot::kSharedUp:
    case WeightSlot::kSharedDown:
      return config.shared_ffn_dim > 0 && config.has_experts(layer);
    default:
      return true;
  }
}
constexpr bool HasBias(const ModelConfig& config, WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kEmbeddingNorm:
    case WeightSlot::kAttentionNorm:
    case WeightSlot::kPostAttentionNorm:
    case WeightSlot::kMlpNorm:
    case WeightSlot::kPostMlpNorm:
    case WeightSlot::kFinalNorm:
    case WeightSlot::kClassifierNorm:
      return config.norm_bias;
    case WeightSlot::kQkv:
    case WeightSlot::kQueryDown:
    case WeightSlot::kKvDown:
      return config.qkv_bias;
    case WeightSlot::kAttentionOut:
      return config.out_bias;
    case WeightSlot::kMlpUp:
    case WeightSlot::kMlpDown:
      return config.mlp_bias;
    case WeightSlot::kRouter:
      return config.router_bias;
    case WeightSlot::kExpertUp:
    case WeightSlot::kExpertDown:
      return config.expert_bias;
    case WeightSlot::kHead:
      return config.head_bias;
    case WeightSlot::kClassifierDense:
      return config.num_labels > 0 && config.classifier_dense_bias;
    case WeightSlot::kClassifierOut:
      return config.num_labels > 0;
    case WeightSlot::kEmbedding:
    case WeightSlot::kPositions:
    case WeightSlot::kTokenTypes:
    case WeightSlot::kQueryNorm:
    case WeightSlot::kKeyNorm:
    case WeightSlot::kQueryDownNorm:
    case WeightSlot::kLatentQuery:
    case WeightSlot::kKvDownNorm:
    case WeightSlot::kKeyUp:
    case WeightSlot::kValueUp:
    case WeightSlot::kAttentionSinks:
    case WeightSlot::kRouterCorrection:
    case WeightSlot::kSharedUp:
    case WeightSlot::kSharedDown:
      return false;
  }
  return false;
}

// [out_features, in_features] of a matrix, of one expert or head where there are several; a vector is [its width, 1].
struct SlotShape {
  int64_t out_features;
  int64_t in_features;
  bool gated = false;  // PackedWeight's
};
constexpr SlotShape ShapeOf(const ModelConfig& config, WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kEmbedding:
    case WeightSlot::kHead:
      return {config.vocab_size, config.hidden_dim};
    case WeightSlot::kClassifierDense:
      return {config.hidden_dim, config.hidden_dim};
    case WeightSlot::kClassifierOut:
      return {config.num_labels, config.hidden_dim};
    case WeightSlot::kPositions:
      return {config.position_rows(), config.hidden_dim};
    case WeightSlot::kTokenTypes:
      return {config.num_token_types, config.hidden_dim};
    case WeightSlot::kQkv:
      return {config.qkv_features(), config.hidden_dim};
    case WeightSlot::kAttentionOut:
      return {config.hidden_dim, config.attention_features()};
    case WeightSlot::kQueryDown:
      return {config.latent.query_rank, config.hidden_dim};
    case WeightSlot::kQueryDownNorm:
      return {config.latent.query_rank, 1};
    case WeightSlot::kLatentQuery:
      return {config.latent_query_features(),
              config.latent.query_rank > 0 ? config.latent.query_rank : config.hidden_dim};
    case WeightSlot::kKvDown:
      return {config.head_dim, config.hidden_dim};
    case WeightSlot::kKvDownNorm:
      return {config.latent.kv_rank, 1};
    case WeightSlot::kKeyUp:
      return {config.latent.kv_rank, config.latent.plain_dim};
    case WeightSlot::kValueUp:
      return {config.latent.value_dim, config.latent.kv_rank};
    case WeightSlot::kMlpUp:
      return {config.up_features(), config.hidden_dim, config.gated_mlp};
    case WeightSlot::kMlpDown:
      return {config.hidden_dim, config.ffn_dim};
    case WeightSlot::kRouter:
      return {config.router_features(), config.hidden_dim};
    case WeightSlot::kAttentionSinks:
      return {config.num_heads, 1};
    case WeightSlot::kRouterCorrection:
      return {config.routing.num_experts, 1};
    case WeightSlot::kExpertUp:
      return {config.up_features(config.expert_ffn_dim), config.hidden_dim, config.gated_mlp};
    case WeightSlot::kExpertDown:
      return {config.hidden_dim, config.expert_ffn_dim};
    case WeightSlot::kSharedUp:
      return {config.up_features(config.shared_ffn_dim), config.hidden_dim, config.gated_mlp};
    case WeightSlot::kSharedDown:
      return {config.hidden_dim, config.shared_ffn_dim};
    case WeightSlot::kQueryNorm:
      return {int64_t{config.qk_norm_joint ? config.num_heads : 1} * config.head_dim, 1};
    case WeightSlot::kKeyNorm:
      return {int64_t{config.qk_norm_joint ? config.num_kv_heads : 1} * config.head_dim, 1};
    case WeightSlot::kEmbeddingNorm:
    case WeightSlot::kAttentionNorm:
    case WeightSlot::kPostAttentionNorm:
    case WeightSlot::kMlpNorm:
    case WeightSlot::kPostMlpNorm:
    case WeightSlot::kFinalNorm:
    case WeightSlot::kClassifierNorm:
      return {config.hidden_dim, 1};
  }
  return {0, 0};
}

}  // namespace dunlin::engine
