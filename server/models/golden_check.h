// SPDX-License-Identifier: Apache-2.0
// Whether a model that has been loaded, and is not served yet, says what its config expects (models[].golden).
#pragma once

#include <atomic>

#include "absl/status/status.h"
#include "server/config/config.h"
#include "server/models/served_model.h"

namespace dunlin::server {

// Continues golden.prompt, greedily, in the model's default profile, and compares the text with golden.output, white
// space before both aside. OK without a golden prompt. Errors: FAILED_PRECONDITION with both texts where they differ,
// and for a model that takes no text or generates none; INVALID_ARGUMENT for a prompt beyond the model's limits;
// CANCELLED soon after stop became true. Waits for the model's engine: not on its thread.
absl::Status CheckGolden(const GoldenPrompt& golden, const ServedModel& model, const std::atomic<bool>& stop);

}  // namespace dunlin::server
