// SPDX-License-Identifier: Apache-2.0
#include "engine/model/weights/weight_storage.h"

#include "absl/strings/str_cat.h"
#include "engine/base/checked_math.h"

namespace dunlin::engine {
namespace {

constexpr uint64_t kAlignment = 64;  // of PackedWeight: a cache line

// Calls visit(place) for every matrix or vector that exists, in memory order.
template <typename Visit>
void ForEachSlot(const ModelConfig& config, Visit visit) {
  for (const WeightSlotRow& row : kWeightSlotTable) {
    if (!IsPerLayer(row.slot) && HasSlot(config, row.slot, 0)) visit(WeightPlace{row.slot});
  }
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    for (const WeightSlotRow& row : kWeightSlotTable) {
      if (!IsPerLayer(row.slot) || !HasSlot(config, row.slot, layer)) continue;
      for (int32_t i = 0; i < NumWeights(config, row.slot); ++i) visit(WeightPlace{row.slot, layer, i});
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

uint64_t SlotBytes(const ModelConfig& config, const WeightPlace& place, WeightEncoding encoding,
                   const kernels::DeviceOps& ops) {
  const SlotShape shape = ShapeOf(config, place.slot, place.layer);
  const size_t bytes =
      ops.packed_weight_bytes(encoding.format, shape.out_features, shape.in_features, encoding.scale_block);
  return CheckedU64(bytes).AlignedUp(kAlignment).value();
}

uint64_t VectorSize(const ModelConfig& config, const WeightPlace& place) {
  const auto floats = static_cast<uint64_t>(ShapeOf(config, place.slot, place.layer).out_features);
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
  ForEachSlot(config, [&](const WeightPlace& place) {
    const WeightSlot slot = place.slot;
    if (!IsVector(slot)) total += SlotBytes(config, place, encodings.Of(config, slot, place.layer, precision), ops);
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
    bytes[static_cast<size_t>(encoding.format)] += SlotBytes(config, place, encoding, ops);
  });
  return bytes;
}

absl::StatusOr<size_t> VectorBytes(const ModelConfig& config) {
  CheckedU64 total(0);
  ForEachVector(config, [&](const WeightPlace& place, bool) { total += VectorSize(config, place); });
  return ToSize(total);
}

void PlaceWeights(const ModelConfig& config, const WeightEncodings& encodings, kernels::Precision precision,
                  bool int8_inputs, const kernels::DeviceOps& ops, std::byte* matrices, std::byte* vectors,
                  PrecisionWeights* weights) {
  weights->layers.resize(static_cast<size_t>(config.all_layers()));
  for (int32_t layer = 0; layer < config.all_layers(); ++layer) {
    LayerWeights& of_layer = weights->layers[static_cast<size_t>(layer)];
    if (config.experts.in_layer(layer)) {
      of_layer.experts.up.resize(static_cast<size_t>(config.experts.routing.num_experts));
      of_layer.experts.down.resize(static_cast<size_t>(config.experts.routing.num_experts));
    }
    of_layer.compressed.out_down.resize(static_cast<size_t>(config.attention.compressed.out_groups));
    if (!config.attention.is_latent()) continue;
    of_layer.latent.key_up.resize(static_cast<size_t>(config.attention.num_heads));
    of_layer.latent.value_up.resize(static_cast<size_t>(config.attention.num_heads));
  }
  ForEachSlot(config, [&](const WeightPlace& place) {
    const WeightSlot slot = place.slot;
    if (IsVector(slot)) return;
    const SlotShape shape = ShapeOf(config, slot, place.layer);
    const WeightEncoding encoding = encodings.Of(config, slot, place.layer, precision);
    *MatrixOf(weights, place) = {.data = matrices,
                                 .precision = Traits(encoding.format).compute,
                                 .out_features = shape.out_features,
                                 .in_features = shape.in_features,
                                 .scale_block = encoding.scale_block,
                                 .gated = shape.gated,
                                 .format = encoding.format,
                                 .int8_inputs = int8_inputs && Traits(encoding.format).group != 0};
    matrices += SlotBytes(config, place, encoding, ops);
  });
  if (config.head.tied) weights->head.weight = weights->embedding;
  ForEachVector(config, [&](const WeightPlace& place, bool is_bias) {
    *VectorOf(weights, place, is_bias) = reinterpret_cast<const float*>(vectors);
    vectors += VectorSize(config, place);
  });
}

kernels::PackedWeight* MatrixOf(PrecisionWeights* weights, const WeightPlace& place) {
  return RowOf(place.slot).field(weights, place).matrix;
}

const float** VectorOf(PrecisionWeights* weights, const WeightPlace& place, bool is_bias) {
  const WeightField field = RowOf(place.slot).field(weights, place);
  return is_bias ? field.bias : field.vector;
}

}  // namespace dunlin::engine
