// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_storage.h"

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace dunlin::engine {
namespace {

using enum WeightSlot;

constexpr uint64_t kAlignment = 64;  // of PackedWeight: a cache line
constexpr WeightSlot kSlots[] = {
    kEmbedding,    kPositions,         kTokenTypes, kEmbeddingNorm, kAttentionNorm, kQkv,     kQueryNorm, kKeyNorm,
    kAttentionOut, kPostAttentionNorm, kMlpNorm,    kPostMlpNorm,   kMlpUp,         kMlpDown, kFinalNorm, kHead};
static_assert(std::size(kSlots) == kNumWeightSlots);

// Calls visit(slot, layer) for every slot that exists, in memory order.
template <typename Visit>
void ForEachSlot(const ModelConfig& config, Visit visit) {
  for (const WeightSlot slot : kSlots) {
    if (!IsPerLayer(slot) && HasSlot(config, slot)) visit(slot, 0);
  }
  for (int32_t layer = 0; layer < config.num_layers; ++layer) {
    for (const WeightSlot slot : kSlots) {
      if (IsPerLayer(slot) && HasSlot(config, slot)) visit(slot, layer);
    }
  }
}

// Calls visit(slot, layer, is_bias) for every FP32 vector.
template <typename Visit>
void ForEachVector(const ModelConfig& config, Visit visit) {
  ForEachSlot(config, [&](WeightSlot slot, int32_t layer) {
    if (IsNorm(slot)) visit(slot, layer, false);
    if (HasBias(config, slot)) visit(slot, layer, true);
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
  ForEachSlot(config, [&](WeightSlot slot, int32_t layer) {
    if (!IsNorm(slot)) total += SlotBytes(config, slot, encodings.Of(config, slot, layer, precision), ops);
  });
  return ToSize(total);
}

std::array<size_t, kernels::kNumWeightFormats> FormatBytes(const ModelConfig& config, const WeightEncodings& encodings,
                                                           kernels::Precision precision,
                                                           const kernels::DeviceOps& ops) {
  std::array<size_t, kernels::kNumWeightFormats> bytes{};
  ForEachSlot(config, [&](WeightSlot slot, int32_t layer) {
    if (IsNorm(slot)) return;
    const WeightEncoding encoding = encodings.Of(config, slot, layer, precision);
    bytes[static_cast<size_t>(encoding.format)] += SlotBytes(config, slot, encoding, ops);
  });
  return bytes;
}

absl::StatusOr<size_t> VectorBytes(const ModelConfig& config) {
  CheckedU64 total(0);
  ForEachVector(config, [&](WeightSlot slot, int32_t, bool) { total += VectorSize(config, slot); });
  return ToSize(total);
}

void PlaceWeights(const ModelConfig& config, const WeightEncodings& encodings, kernels::Precision precision,
                  const kernels::DeviceOps& ops, std::byte* matrices, std::byte* vectors, PrecisionWeights* weights) {
  weights->layers.resize(static_cast<size_t>(config.num_layers));
  ForEachSlot(config, [&](WeightSlot slot, int32_t layer) {
    if (IsNorm(slot)) return;
    const SlotShape shape = ShapeOf(config, slot);
    const WeightEncoding encoding = encodings.Of(config, slot, layer, precision);
    *MatrixOf(weights, slot, layer) = {.data = matrices,
                                       .precision = Traits(encoding.format).compute,
                                       .out_features = shape.out_features,
                                       .in_features = shape.in_features,
                                       .scale_block = encoding.scale_block,
                                       .gated = shape.gated,
                                       .format = encoding.format};
    matrices += SlotBytes(config, slot, encoding, ops);
  });
  if (config.tied_embeddings) weights->head.weight = weights->embedding;
  ForEachVector(config, [&](WeightSlot slot, int32_t layer, bool is_bias) {
    *VectorOf(weights, slot, layer, is_bias) = reinterpret_cast<const float*>(vectors);
    vectors += VectorSize(config, slot);
  });
}

kernels::PackedWeight* MatrixOf(PrecisionWeights* weights, WeightSlot slot, int32_t layer) {
  const auto layer_at = [&]() -> LayerWeights& { return weights->layers[static_cast<size_t>(layer)]; };
  switch (slot) {
    case kEmbedding:
      return &weights->embedding;
    case kPositions:
      return &weights->positions;
    case kTokenTypes:
      return &weights->token_types;
    case kHead:
      return &weights->head.weight;
    case kQkv:
      return &layer_at().qkv.weight;
    case kAttentionOut:
      return &layer_at().attention_out.weight;
    case kMlpUp:
      return &layer_at().mlp_up.weight;
    case kMlpDown:
      return &layer_at().mlp_down.weight;
    default:  // norms
      break;
  }
  return nullptr;
}

const float** VectorOf(PrecisionWeights* weights, WeightSlot slot, int32_t layer, bool is_bias) {
  const auto layer_at = [&]() -> LayerWeights& { return weights->layers[static_cast<size_t>(layer)]; };
  const auto part = [&](NormWeights& norm) { return is_bias ? &norm.bias : &norm.weight; };
  switch (slot) {
    case kEmbeddingNorm:
      return part(weights->embedding_norm);
    case kAttentionNorm:
      return part(layer_at().attention_norm);
    case kQueryNorm:
      return part(layer_at().query_norm);
    case kKeyNorm:
      return part(layer_at().key_norm);
    case kPostAttentionNorm:
      return part(layer_at().post_attention_norm);
    case kMlpNorm:
      return part(layer_at().mlp_norm);
    case kPostMlpNorm:
      return part(layer_at().post_mlp_norm);
    case kFinalNorm:
      return part(weights->final_norm);
    case kQkv:
      return &layer_at().qkv.bias;
    case kAttentionOut:
      return &layer_at().attention_out.bias;
    case kMlpUp:
      return &layer_at().mlp_up.bias;
    case kMlpDown:
      return &layer_at().mlp_down.bias;
    case kHead:
      return &weights->head.bias;
    case kEmbedding:
    case kPositions:
    case kTokenTypes:
      break;
  }
  return nullptr;
}

}  // namespace dunlin::engine
