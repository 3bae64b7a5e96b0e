// The scale tensors of an FP8 checkpoint: found and checked for every part, then read.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/model/quantization.h"
#include "engine/model/tensor_source.h"
#include "engine/model/weight_parts.h"

namespace dunlin::engine {

// Fills WeightPart::scales of every matrix that the checkpoint has in FP8. Reads nothing.
// INVALID_ARGUMENT names tensor, shape and dtype: a scale that is missing or has the wrong shape, FP8 weights that the
// config says nothing of or lists as ignored, a fused matrix of which some parts are FP8 and some are not.
absl::Status FindScales(const Quantization& quantization, const TensorSource& source, std::vector<WeightPart>* parts);

// The values of a scale tensor (F32, BF16 or F16), widened. INVALID_ARGUMENT names file, tensor and value when one is
// not finite or not above 0.
absl::StatusOr<std::vector<float>> ReadScales(const TensorSource& source, const TensorInfo& tensor);

// Whether a tensor is a scale of the KV cache (k_scale, v_scale, kv_scale).
bool IsKvScale(std::string_view tensor);

// Checks the KV scales of a checkpoint, their values too when `read` is set, and returns a line that says what becomes
// of them; "" when there are none.
absl::StatusOr<std::string> CheckKvScales(const TensorSource& source, bool read);

}  // namespace dunlin::engine
