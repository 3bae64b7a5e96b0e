// SPDX-License-Identifier: Apache-2.0
// Observes a model over a text: the largest magnitude of every linear input becomes the constant of the recipe static.
// Source: the publishers' static FP8 recipes, scale = amax / 448.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/types.h"

namespace dunlin::engine {

// Runs `tokens` (each < vocab_size) in windows of at most kCalibrationWindow tokens, each from position 0, in the
// model's default precision. INVALID_ARGUMENT when there are no tokens, or when an input is not finite (it names the
// layer); FAILED_PRECONDITION for an encoder; RESOURCE_EXHAUSTED when there is no memory for a window.
inline constexpr int32_t kCalibrationWindow = 512;
absl::StatusOr<InputScales> CalibrateInputs(const Model& model, std::span<const TokenId> tokens);

}  // namespace dunlin::engine
