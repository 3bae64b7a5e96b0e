// SPDX-License-Identifier: Apache-2.0
// A model's own sampling defaults (generation_config.json), for the fields that a request leaves unset.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/base/file.h"
#include "engine/request/types.h"

namespace dunlin::engine {

struct GenerationDefaults {
  SamplingParams sampling;
  bool names_temperature = false;     // by temperature, or by do_sample: false
  std::optional<int32_t> max_tokens;  // max_new_tokens
  std::vector<std::string> warnings;  // fields that would change the output and are not supported, ids out of range
};

// Reads the numeric parameters of draw_params.h that have a config_low, do_sample, max_new_tokens, suppress_tokens,
// begin_suppress_tokens and bad_words_ids; absent fields, or an absent file, keep the defaults of SamplingParams.
// do_sample: false is temperature 0; without do_sample, as in vLLM, a request without a temperature samples. Token ids
// outside the vocabulary can never be drawn: they, and the bad words that contain them, are dropped with a warning.
// INVALID_ARGUMENT names file, field, value and limit.
absl::StatusOr<GenerationDefaults> ReadGenerationDefaults(const TextFiles& files, int32_t vocab_size);

// The same from the text of a generation_config.json.
absl::StatusOr<GenerationDefaults> ParseGenerationDefaults(std::string_view text, int32_t vocab_size);

}  // namespace dunlin::engine
