// SPDX-License-Identifier: Apache-2.0
// The layout of a model's weights in device memory: one block for the matrices of each precision, and one for the FP32
// vectors that all precisions share. Sizes are known before anything is allocated.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/model_weights.h"
#include "engine/model/weights/weight_encodings.h"
#include "kernels/api/device.h"

namespace dunlin::engine {

// Whether a device has products for the weights of a precision.
bool Multiplies(const kernels::DeviceOps& ops, kernels::Precision precision);

// Bytes of all matrices in one precision; of all norms and biases. RESOURCE_EXHAUSTED when they overflow 63 bits,
// FAILED_PRECONDITION when the device does not multiply the precision.
absl::StatusOr<size_t> MatrixBytes(const ModelConfig& config, const WeightEncodings& encodings,
                                   kernels::Precision precision, const kernels::DeviceOps& ops);
absl::StatusOr<size_t> VectorBytes(const ModelConfig& config);

// Of MatrixBytes, the part of each format. REQUIRES: MatrixBytes is OK.
std::array<size_t, kernels::kNumWeightFormats> FormatBytes(const ModelConfig& config, const WeightEncodings& encodings,
                                                           kernels::Precision precision, const kernels::DeviceOps& ops);

// Points every field of `weights` into `matrices` and `vectors`, 64-byte aligned blocks of MatrixBytes and VectorBytes;
// a tied head shares the embedding's memory. Does not write to the blocks. int8_inputs: ModelSource's.
void PlaceWeights(const ModelConfig& config, const WeightEncodings& encodings, kernels::Precision precision,
                  bool int8_inputs, const kernels::DeviceOps& ops, std::byte* matrices, std::byte* vectors,
                  PrecisionWeights* weights);

// The field of a weight or, with is_bias, of its bias. REQUIRES: it exists in this model; for MatrixOf it is a matrix,
// for VectorOf without is_bias a vector.
kernels::PackedWeight* MatrixOf(PrecisionWeights* weights, const WeightPlace& place);
const float** VectorOf(PrecisionWeights* weights, const WeightPlace& place, bool is_bias);

}  // namespace dunlin::engine
