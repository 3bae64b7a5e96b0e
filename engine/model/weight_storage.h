// Where every weight of a model lies in device memory: sizes known before anything is allocated, then one block for the
// matrices of each precision and one for the FP32 vectors that all precisions share.
#pragma once

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/model/model_config.h"
#include "engine/model/slot_forms.h"
#include "engine/model/weight_slot.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Bytes of all matrices in one precision; of all norms and biases. RESOURCE_EXHAUSTED when they overflow 63 bits.
absl::StatusOr<size_t> MatrixBytes(const ModelConfig& config, const SlotForms& forms, kernels::Precision precision,
                                   const kernels::DeviceOps& ops);
absl::StatusOr<size_t> VectorBytes(const ModelConfig& config);

// Points every field of `weights` into `matrices` and `vectors`, blocks of those sizes, 64-byte aligned; a tied head
// gets the embedding's memory. Writes nothing to them.
void PlaceWeights(const ModelConfig& config, const SlotForms& forms, kernels::Precision precision,
                  const kernels::DeviceOps& ops, std::byte* matrices, std::byte* vectors, PrecisionWeights* weights);

// The field of a slot. REQUIRES: the slot exists in this model; for MatrixOf not a norm.
kernels::PackedWeight* MatrixOf(PrecisionWeights* weights, WeightSlot slot, int32_t layer);
const float** VectorOf(PrecisionWeights* weights, WeightSlot slot, int32_t layer, bool is_bias);

}  // namespace dunlin::engine
