// Sampling and stopping between the wire and the engine: bounds, then the model's defaults for what is unset.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "dunlin/v1/generation.pb.h"
#include "engine/types.h"

namespace dunlin::server {

inline constexpr float kMaxTemperature = 100.0F;
inline constexpr float kMaxRepetitionPenalty = 10.0F;
inline constexpr float kMaxPenalty = 2.0F;  // presence, frequency: [-2, 2]
inline constexpr float kMaxLogitBiasValue = 100.0F;

// Checks every field and overwrites those of *out that the wire sets; *out comes in as the model's defaults. An unset
// seed is drawn. n is not part of the engine's params: CheckOutputs.
// Errors: INVALID_ARGUMENT. *out is unspecified after one.
absl::Status SamplingFromWire(const v1::Sampling& wire, int32_t vocab_size, engine::SamplingParams* out);

// n: [1, kMaxOutputsPerRequest], 1 when unset.
absl::Status CheckOutputs(const v1::Sampling& wire, int32_t* num_outputs);

// All but the stop strings, which are the edge's own. An unset max_tokens leaves out->max_tokens at 0: the context
// decides, once the prompt's length is known. Errors: INVALID_ARGUMENT.
absl::Status StoppingFromWire(const v1::Stopping& wire, int32_t vocab_size, int32_t max_context_tokens,
                              engine::StoppingParams* out);

// At most 16 stop strings, each 1 to 256 bytes.
absl::Status CheckStopStrings(const v1::Stopping& wire);

// [0, 20] each; unset leaves -1.
absl::Status LogprobsFromWire(const v1::OutputOptions& wire, engine::SamplingParams* out);

}  // namespace dunlin::server
