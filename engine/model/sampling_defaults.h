// SPDX-License-Identifier: Apache-2.0
// A model's own sampling defaults (generation_config.json), for the fields that a request leaves unset.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/types.h"

namespace dunlin::engine {

// Reads temperature, top_k, top_p, min_p and repetition_penalty; absent fields, or an absent file, keep the defaults of
// SamplingParams. do_sample is not read: as in vLLM, a request without a temperature samples. INVALID_ARGUMENT names
// file, field, value and limit.
absl::StatusOr<SamplingParams> ReadSamplingDefaults(const std::string& directory);

}  // namespace dunlin::engine
