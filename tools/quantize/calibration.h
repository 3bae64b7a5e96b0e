// SPDX-License-Identifier: Apache-2.0
// Observes a model over a text: the largest magnitude of every linear input becomes the constant of the recipe static.
// Source: the publishers' static FP8 recipes, scale = amax / 448.
#pragma once

#include <span>

#include "absl/status/statusor.h"
#include "engine/model/model.h"
#include "engine/request/types.h"

namespace dunlin::engine {

// Runs `tokens` (each < vocab_size) in windows (text_windows.h). INVALID_ARGUMENT when an input is not finite (it names
// the layer); otherwise as TextWindows.
absl::StatusOr<InputScales> CalibrateInputs(const Model& model, std::span<const TokenId> tokens);

}  // namespace dunlin::engine
