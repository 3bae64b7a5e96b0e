// SPDX-License-Identifier: Apache-2.0
// The weights of a model by role, and the shape of each. Pure.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/model/model_config.h"

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
  kAttentionOut,
  kPostAttentionNorm,
  kMlpNorm,
  kPostMlpNorm,
  kMlpUp,
  kMlpDown,
  kFinalNorm,
  kHead,
  kClassifierDense,
  kClassifierOut,
};
inline constexpr size_t kNumWeightSlots = static_cast<size_t>(WeightSlot::kClassifierOut) + 1;

constexpr bool IsNorm(WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kEmbeddingNorm:
    case WeightSlot::kAttentionNorm:
    case WeightSlot::kQueryNorm:
    case WeightSlot::kKeyNorm:
    case WeightSlot::kPostAttentionNorm:
    case WeightSlot::kMlpNorm:
    case WeightSlot::kPostMlpNorm:
    case WeightSlot::kFinalNorm:
      return true;
    default:
      return false;
  }
}

// Whether each layer has one.
constexpr bool IsPerLayer(WeightSlot slot) {
  return slot >= WeightSlot::kAttentionNorm && slot <= WeightSlot::kMlpDown;
}

// Whether the slot exists in this model, and whether it has a bias. A tied head does not exist: it is the embedding.
constexpr bool HasSlot(const ModelConfig& config, WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kPositions:
      return config.learned_positions;
    case WeightSlot::kQueryNorm:
    case WeightSlot::kKeyNorm:
      return config.qk_norm;
    case WeightSlot::kAttentionNorm:
      return config.norm_placement != NormPlacement::kPostInside;
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
    case WeightSlot::kTokenTypes:
      return config.num_token_types > 0;
    case WeightSlot::kEmbeddingNorm:
      return config.has_embedding_norm();
    case WeightSlot::kFinalNorm:
      return config.norm_placement != NormPlacement::kPost;
    default:
      return true;
  }
}
// layer: 0 where the slot is not per layer.
constexpr bool HasSlot(const ModelConfig& config, WeightSlot slot, int32_t layer) {
  if (slot == WeightSlot::kAttentionNorm && layer == 0 && config.first_norm_absent) return false;
  return HasSlot(config, slot);
}
constexpr bool HasBias(const ModelConfig& config, WeightSlot slot) {
  switch (slot) {
    case WeightSlot::kEmbeddingNorm:
    case WeightSlot::kAttentionNorm:
    case WeightSlot::kPostAttentionNorm:
    case WeightSlot::kMlpNorm:
    case WeightSlot::kPostMlpNorm:
    case WeightSlot::kFinalNorm:
      return config.norm_bias;
    case WeightSlot::kQkv:
      return config.qkv_bias;
    case WeightSlot::kAttentionOut:
      return config.out_bias;
    case WeightSlot::kMlpUp:
    case WeightSlot::kMlpDown:
      return config.mlp_bias;
    case WeightSlot::kHead:
      return config.head_bias;
    case WeightSlot::kClassifierDense:
    case WeightSlot::kClassifierOut:
      return config.num_labels > 0;
    case WeightSlot::kEmbedding:
    case WeightSlot::kPositions:
    case WeightSlot::kTokenTypes:
    case WeightSlot::kQueryNorm:
    case WeightSlot::kKeyNorm:
      return false;
  }
  return false;
}

// [out_features, in_features] of a matrix; a norm is [its width, 1].
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
      return {config.hidden_dim, int64_t{config.num_heads} * config.head_dim};
    case WeightSlot::kMlpUp:
      return {config.up_features(), config.hidden_dim, config.gated_mlp};
    case WeightSlot::kMlpDown:
      return {config.hidden_dim, config.ffn_dim};
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
      return {config.hidden_dim, 1};
  }
  return {0, 0};
}

}  // namespace dunlin::engine
