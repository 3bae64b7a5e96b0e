// SPDX-License-Identifier: Apache-2.0
// The weights of a model by role. Everything that the loader, the memory plan and the file formats need to know about
// a role is one row of kWeightSlotTable: a new weight is an enumerator, a row and a field of model_weights.h. Pure.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "engine/model/spec/model_config.h"

namespace dunlin::kernels {
struct PackedWeight;
}

namespace dunlin::engine {

struct PrecisionWeights;

// In memory order: those of SlotCount::kOnce, then of each layer the others.
enum class WeightSlot : uint8_t {
  kEmbedding,
  kPatchEmbedding,
  kPatchPositions,
  kPositions,
  kTokenTypes,
  kEmbeddingNorm,
  kLayerTable,
  kLayerProjection,
  kLayerProjectionNorm,
  kAttentionNorm,
  kQkv,
  kAttentionGate,
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
  kIndexQuery,
  kIndexQueryNorm,
  kIndexKey,
  kIndexKeyNorm,
  kIndexWeights,
  kEntryRows,
  kEntryBias,
  kEntryNorm,
  kIndexEntryRows,
  kIndexEntryBias,
  kIndexEntryNorm,
  kOutDown,
  kDeltaIn,
  kDeltaGates,
  kDeltaDecay,
  kDeltaOutputGate,
  kDeltaConv,
  kDeltaRate,
  kDeltaTimeBias,
  kDeltaNorm,
  kDeltaOut,
  kShortConvIn,
  kShortConvTaps,
  kShortConvBias,
  kShortConvOut,
  kMambaIn,
  kMambaConv,
  kMambaConvBias,
  kMambaRate,
  kMambaTimeBias,
  kMambaSkip,
  kMambaNorm,
  kMambaOut,
  kAttentionOut,
  kAttentionStreams,
  kAttentionStreamBase,
  kAttentionStreamScale,
  kMlpStreams,
  kMlpStreamBase,
  kMlpStreamScale,
  kPostAttentionNorm,
  kMlpNorm,
  kPostMlpNorm,
  kMlpUp,
  kMlpDown,
  kMlpCurve,
  kRouterNorm,
  kRouter,
  kRouterCorrection,
  kTokenExperts,
  kLatentIn,
  kLatentOut,
  kExpertScales,
  kExpertsNorm,
  kPostDenseNorm,
  kPostExpertsNorm,
  kExpertUp,
  kExpertDown,
  kSharedUp,
  kSharedDown,
  kLayerInputGate,
  kLayerInputOut,
  kPostLayerInputNorm,
  kLayerFactor,
  kPredictorEmbeddingNorm,
  kPredictorHiddenNorm,
  kPredictorIn,
  kPredictorFinalNorm,
  kPredictorHead,
  kHeadStreams,
  kHeadStreamBase,
  kHeadStreamScale,
  kFinalNorm,
  kHead,
  kClassifierDense,
  kClassifierNorm,
  kClassifierOut,
  kProjectorNorm,
  kProjectorMerge,
  kProjectorUp,
  kProjectorDown,
};
inline constexpr size_t kNumWeightSlots = static_cast<size_t>(WeightSlot::kProjectorDown) + 1;

// One weight of a model.
struct WeightPlace {
  WeightSlot slot;
  int32_t layer = 0;  // where the slot is per layer
  int32_t index = 0;  // of the expert, head or group, where it is per one
};

// [out_features, in_features] of a matrix, of one expert or head where there are several; a vector is [its width, 1].
struct SlotShape {
  int64_t out_features;
  int64_t in_features;
  bool gated = false;  // PackedWeight's
};

// Where the weights of one precision hold a weight: the matrix or the vector, and the bias that either may have.
struct WeightField {
  kernels::PackedWeight* matrix = nullptr;
  const float** vector = nullptr;
  const float** bias = nullptr;
};

// Matrices are packed; norms and other vectors are FP32, and their biases too.
enum class SlotKind : uint8_t { kMatrix, kNorm, kVector };

// How many such weights there are: one in a model, in each layer, for each expert, for each head or for each group of
// heads of a layer (CompressedAttentionSpec::out_groups).
enum class SlotCount : uint8_t { kOnce, kPerLayer, kPerExpert, kPerHead, kPerGroup };

// The format of a matrix in a precision that has no codes of a checkpoint for it.
enum class SlotStorage : uint8_t {
  kPacked,            // the precision's
  kWide,              // at least 16 bits
  kWideWhenGathered,  // kWide in encoders, whose embedding is gathered only; else kPacked
  kFp32,              // FP32 in every precision
};

// The factor of a config that the rows of a tensor are multiplied with at load.
enum class SlotFactor : uint8_t {
  kUnscaled,
  kResidual,      // ModelConfig::residual_scale
  kLogit,         // HeadSpec::scale
  kLayerInput,    // 1 / sqrt(2), of LayerInputSpec
  kRouterInput,   // 1 / sqrt(hidden_dim)
  kInverseLayer,  // rows of Q: 1 / (layer + 1), with AttentionSpec::inverse_layer_scale
};

// The shape of a slot as functions of the config and the layer, 0 with kOnce.
struct SlotDims {
  int64_t (*out_features)(const ModelConfig& config, int32_t layer);
  int64_t (*in_features)(const ModelConfig& config, int32_t layer);
  bool up = false;  // of an MLP's first matrix, which has a gate with MlpSpec::gated
};

struct WeightSlotRow {
  WeightSlot slot;
  const char* name;  // of dunlin_input_scales.json, where the slot has an input scale
  SlotCount count;
  SlotKind kind;
  // Whether this layer (0 with kOnce) has the weight. A tied head does not exist: it is the embedding.
  bool (*exists)(const ModelConfig& config, int32_t layer);
  bool (*has_bias)(const ModelConfig& config);  // null: never
  SlotDims dims;
  // REQUIRES: the weight exists and the vectors of layers, experts and heads have their sizes.
  WeightField (*field)(PrecisionWeights* weights, const WeightPlace& place);
  SlotStorage storage = SlotStorage::kPacked;
  SlotFactor factor = SlotFactor::kUnscaled;
  bool input_scale = false;  // its input may have a calibrated FP8 scale
};

// In the order of WeightSlot.
extern const std::array<WeightSlotRow, kNumWeightSlots> kWeightSlotTable;

inline const WeightSlotRow& RowOf(WeightSlot slot) {
  return kWeightSlotTable[static_cast<size_t>(slot)];
}

inline bool IsNorm(WeightSlot slot) {
  return RowOf(slot).kind == SlotKind::kNorm;
}
// Whether the slot is an FP32 vector, not a matrix.
inline bool IsVector(WeightSlot slot) {
  return RowOf(slot).kind != SlotKind::kMatrix;
}
// Whether the vector is the taps of a convolution, which checkpoints have as [channels, 1, taps] and devices as
// [taps, channels].
inline bool IsConvolution(WeightSlot slot) {
  return slot == WeightSlot::kDeltaConv || slot == WeightSlot::kShortConvTaps || slot == WeightSlot::kMambaConv;
}
// Whether each layer has one, or one for each expert or head.
inline bool IsPerLayer(WeightSlot slot) {
  return RowOf(slot).count != SlotCount::kOnce;
}
inline bool IsPerExpert(WeightSlot slot) {
  return RowOf(slot).count == SlotCount::kPerExpert;
}
inline bool IsPerHead(WeightSlot slot) {
  return RowOf(slot).count == SlotCount::kPerHead;
}
inline bool HasSlot(const ModelConfig& config, WeightSlot slot, int32_t layer) {
  return RowOf(slot).exists(config, layer);
}
inline bool HasBias(const ModelConfig& config, WeightSlot slot) {
  return RowOf(slot).has_bias != nullptr && RowOf(slot).has_bias(config);
}
inline SlotShape ShapeOf(const ModelConfig& config, WeightSlot slot, int32_t layer) {
  const SlotDims& dims = RowOf(slot).dims;
  return {dims.out_features(config, layer), dims.in_features(config, layer), dims.up && config.mlp.gated};
}
// Weights of a slot in a layer that has it, or in the model.
inline int32_t NumWeights(const ModelConfig& config, WeightSlot slot) {
  if (RowOf(slot).count == SlotCount::kPerGroup) return config.attention.compressed.out_groups;
  return IsPerExpert(slot) ? config.experts.routing.num_experts : IsPerHead(slot) ? config.attention.num_heads : 1;
}

}  // namespace dunlin::engine
