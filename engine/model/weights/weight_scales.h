// SPDX-License-Identifier: Apache-2.0
// The scale tensors of an FP8 checkpoint: found, checked and read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/checkpoint/quantization.h"
#include "engine/model/checkpoint/tensor_source.h"
#include "engine/model/weights/weight_parts.h"

namespace dunlin::engine {

// Fills WeightPart::scales of every FP8 matrix of the checkpoint. Reads no tensor.
// INVALID_ARGUMENT names tensor, shape and dtype: a scale that is missing or has the wrong shape, FP8 weights that the
// config does not describe or lists as ignored, a fused matrix with FP8 and non-FP8 parts.
absl::Status FindScales(const Quantization& quantization, const TensorSource& source, std::vector<WeightPart>* parts);

// The values of a scale tensor (F32, BF16, F16 or F8_E8M0), widened. INVALID_ARGUMENT names file, tensor and value when
// one is not finite or not above 0.
absl::StatusOr<std::vector<float>> ReadScales(const TensorSource& source, const TensorInfo& tensor);

// Whether a tensor is a scale of the KV cache: k_scale, v_scale, kv_scale, or the output_scale of k_proj or v_proj.
bool IsKvScale(std::string_view tensor);

// Checks the KV scales of a checkpoint, with their values when `read` is set. Returns a warning by name that they are
// not used, "" when there are none.
absl::StatusOr<std::string> CheckKvScales(const TensorSource& source, bool read);

}  // namespace dunlin::engine
