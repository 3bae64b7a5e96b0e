// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_storage.h"

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace dunlin::engine {
namespace {

using enum WeightSlot;

constexpr uint64_t kAlignment = 64;  // of PackedWeight: a cache line
constexpr WeightSlot kSlots[] = {
    kEmbedding, kPositions,      kTokenTypes,       kEmbeddingNorm,     kAttentionNorm, kQkv,         kQueryNorm,
    kKeyNorm,   kAttentionSinks, kQueryDown,        kQueryDownNorm,     kLatentQuery,   kKvDown,      kKvDownNorm,
    kKeyUp,     kValueUp,        kAttentionOut,     kPostAttentionNorm, kMlpNorm,       kPostMlpNorm, kMlpUp,
    kMlpDown,   kRouter,         kRouterCorrection, kExpertUp,          kExpertDown,    kSharedUp,    kSharedDown,
    kFinalNorm, kHead,           kClassifierDense,  kClassifierNorm,    kClassifierOut};
static_assert(std::size(kSlots) == kNumWeightSlots);

// Calls visit(place) for every matrix or vector that exists, in memory order.
template <typename Visit>
void ForEachSlot(const ModelConfig& config, Visit visit) {
  for (const WeightSlot slot : kSlots) {
    if (!IsPerLayer(slot) && HasSlot(config, slot, 0)) visit(WeightPlace{slot});
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const WeightSlot slot : kSlots) {
      if (!IsPerLayer(slot) || !HasSlot(config, slot, layer)) continue;
      for (int32_t i = 0; i < NumWeights(config, slot); ++i) visit(WeightPlace{slot, layer, i});
    }
  }
}

// Calls visit(place, is_bias) for every FP32 vector.
template <typename Visit>
void ForEachVector(const ModelConfig& config, Visit visit) {
  ForEachSlot(config, [&](const WeightPlace& place) {
    if (IsVector(place.slot)) visit(place, false);
    if (HasBias(config, place.slot)) visit(place, true);
  });
}

uint64_t SlotBytes(const ModelConfig& config, WeightSlot slot, WeightEncoding encoding, const kernels::DeviceOps& ops) {
  const SlotShape shape = ShapeOf(config, slot);
  const size_t bytes =
      ops.packed_weight_bytes(encoding.format, shape.out_features, shape.in_features, encoding.scale_block);
  return CheckedU64(bytes).AlignedUp(kAlignment).value();
}

uint64_t VectorSize(const ModelConfig& config, WeightSlot slot) {
  const auto floats = static_cast<uint64_t>(ShapeOf(config, slot).out_features);
  return (CheckedU64(floats) * CheckedU64(sizeof(float))).AlignedUp(kAlignment).value();
}

// The linear operation of a slot, or null.
LinearWeights* LinearOf(PrecisionWeights* weights, const WeightPlace& place) {
  if (place.slot == kHead) return &weights->head;
  if (place.slot == kClassifierDense) return &weights->classifier_dense;
  if (place.slot == kClassifierOut) return &weights->classifier_out;
  if (!IsPerLayer(place.slot)) return nullptr;
  LayerWeights& layer = weights->layers[static_cast<size_t>(place.layer)];
  switch (place.slot) {
    case kQkv:
      return &layer.qkv;
    case kQueryDown:
      return &layer.latent.query_down;
    case kLatentQuery:
      return &layer.latent.query;
    case kKvDown:
      return &layer.latent.kv_down;
    case kKeyUp:
      return &layer.latent.key_up[static_cast<size_t>(place.index)];
    case kValueUp:
      return &layer.latent.value_up[static_cast<size_t>(place.index)];
    case kAttentionOut:
      return &layer.attention_out;
    case kMlpUp:
      return &layer.mlp_up;
    case kMlpDown:
      return &layer.mlp_down;
    case kRouter:
      return &layer.router;
    case kExpertUp:
      return &layer.experts[static_cast<size_t>(place.index)].up;
    case kExpertDown:
      return &layer.experts[static_cast<size_t>(place.index)].down;
    case kSharedUp:
      return &layer.shared_expert.up;
    case kSharedDown:
      return &layer.shared_expert.down;
    default:  // vectors
      return nullptr;
  }
}

absl::StatusOr<size_t> ToSize(CheckedU64 total) {
  if (total.ok() && total.value() <= INT64_MAX) return static_cast<size_t>(total.value());
  return absl::ResourceExhaustedError("the model's weights need more than 2^63 bytes");
}

}  // namespace

bool Multiplies(const kernels::DeviceOps& ops, kernels::Precision precision) {
  return ops.packed_weight_bytes(Traits(precision).format, 1, 1, 0) > 0;
}

absl::StatusOr<size_t> MatrixBytes(const ModelConfig& config, const WeightEncodings& encodings,
                                   kernels::Precision precision, const kernels::DeviceOps& ops) {
  if (!Multiplies(ops, precision)) {
    return absl::FailedPreconditionError(absl::StrCat("precision ", kernels::Name(precision), " is not supported on ",
                                                      kernels::Name(ops.kind), " (models[].precisions)"));
  }
  CheckedU64 total(0);
  ForEachSlot(config, [&](const WeightPlace& place) {
    const WeightSlot slot = place.slot;
    if (!IsVector(slot)) total += SlotBytes(config, slot, encodings.Of(config, slot, place.layer, precision), ops);
  });
  return ToSize(total);
}

std::array<size_t, kernels::kNumWeightFormats> FormatBytes(const ModelConfig& config, const WeightEncodings& encodings,
                                                           kernels::Precision precision,
                                                           const kernels::DeviceOps& ops) {
  std::array<size_t, kernels::kNumWeightFormats> bytes{};
  ForEachSlot(config, [&](const WeightPlace& place) {
    if (IsVector(place.slot)) return;
    const WeightEncoding encoding = encodings.Of(config, place.slot, place.layer, precision);
    bytes[static_cast<size_t>(encoding.format)] += SlotBytes(config, place.slot, encoding, ops);
  });
  return bytes;
}

absl::StatusOr<size_t> VectorBytes(const ModelConfig& config) {
  CheckedU64 total(0);
  ForEachVector(config, [&](const WeightPlace& place, bool) { total += VectorSize(config, place.slot); });
  return ToSize(total);
}

void PlaceWeights(const ModelConfig& config, const WeightEncodings& encodings, kernels::Precision precision,
                  bool int8_inputs, const kernels::DeviceOps& ops, std::byte* matrices, std::byte* vectors,
                  PrecisionWeights* weights) {
  weights->layers.resize(static_cast<size_t>(config.num_layers));
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    LayerWeights& of_layer = weights->layers[static_cast<size_t>(layer)];
    if (config.has_experts(layer)) of_layer.experts.resize(static_cast<size_t>(config.routing.num_experts));
    if (!config.has_latent_attention()) continue;
    of_layer.latent.key_up.resize(static_cast<size_t>(config.num_heads));
    of_layer.latent.value_up.resize(static_cast<size_t>(config.num_heads));
  }
  ForEachSlot(config, [&](const WeightPlace& place) {
    const WeightSlot slot = place.slot;
    if (IsVector(slot)) return;
    const SlotShape shape = ShapeOf(config, slot);
    const WeightEncoding encoding = encodings.Of(config, slot, place.layer, precision);
    *MatrixOf(weights, place) = {.data = matrices,
                                 .precision = Traits(encoding.format).compute,
                                 .out_features = shape.out_features,
                                 .in_features = shape.in_features,
                                 .scale_block = encoding.scale_block,
                                 .gated = shape.gated,
                                 .format = encoding.format,
                                 .int8_inputs = int8_inputs && Traits(encoding.format).group != 0};
    matrices += SlotBytes(config, slot, encoding, ops);
  });
  if (config.tied_embeddings) weights->head.weight = weights->embedding;
  ForEachVector(config, [&](const WeightPlace& place, bool is_bias) {
    *VectorOf(weights, place, is_bias) = reinterpret_cast<const float*>(vectors);
    vectors += VectorSize(config, place.slot);
  });
}

kernels::PackedWeight* MatrixOf(PrecisionWeights* weights, const WeightPlace& place) {
  LinearWeights* linear = LinearOf(weights, place);
  if (linear != nullptr) return &linear->weight;
  switch (place.slot) {
    case kEmbedding:
      return &weights->embedding;
    case kPositions:
      return &weights->positions;
    case kTokenTypes:
      return &weights->token_types;
    default:  // vectors
      return nullptr;
  }
}

const float** VectorOf(PrecisionWeights* weights, const WeightPlace& place, bool is_bias) {
  const auto layer_at = [&]() -> LayerWeights& { return weights->layers[static_cast<size_t>(place.layer)]; };
  const auto part = [&](NormWeights& norm) { return is_bias ? &norm.bias : &norm.weight; };
  if (LinearWeights* linear = LinearOf(weights, place); linear != nullptr) return &linear->bias;
  switch (place.slot) {
    case kEmbeddingNorm:
      return part(weights->embedding_norm);
    case kAttentionNorm:
      return part(layer_at().attention_norm);
    case kQueryNorm:
      return part(layer_at().query_norm);
    case kKeyNorm:
      return part(layer_at().key_norm);
    case kQueryDownNorm:
      return part(layer_at().latent.query_norm);
    case kKvDownNorm:
      return part(layer_at().latent.kv_norm);
    case kPostAttentionNorm:
      return part(layer_at().post_attention_norm);
    case kMlpNorm:
      return part(layer_at().mlp_norm);
    case kPostMlpNorm:
      return part(layer_at().post_mlp_norm);
    case kFinalNorm:
      return part(weights->final_norm);
    case kClassifierNorm:
      return part(weights->classifier_norm);
    case kAttentionSinks:
      return &layer_at().sinks;
    case kRouterCorrection:
      return &layer_at().router_correction;
    default:  // matrices without a bias
      return nullptr;
  }
}

}  // namespace dunlin::engine
