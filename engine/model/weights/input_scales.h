// SPDX-License-Identifier: Apache-2.0
// dunlin_input_scales.json: the FP8 scale of every linear input, written by `dunlin calibrate` beside the model's
// files. It overrides the checkpoint's own input scales.
//
//   {"format": "dunlin_input_scales", "version": 1, "scales": {"qkv": [layer 0, layer 1, ...], "attention_out": [...],
//    "mlp_up": [...], "mlp_down": [...], "head": [one]}}
#pragma once

#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "engine/model/spec/model_config.h"
#include "engine/model/spec/model_weights.h"

namespace dunlin::engine {

inline constexpr const char* kInputScalesFile = "dunlin_input_scales.json";

// INVALID_ARGUMENT names file, field, value and limit: unknown names, a list of the wrong length, a value that is not
// finite or not above 0 in FP32.
absl::StatusOr<InputScales> ParseInputScales(std::string_view text, const ModelConfig& config);

// The text of such a file; ParseInputScales returns the same scales, bit for bit.
std::string InputScalesText(const InputScales& scales);

}  // namespace dunlin::engine
