// What a model's own generation_config.json asks of sampling, for the fields a request leaves unset.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "engine/types.h"

namespace dunlin::engine {

// Reads temperature, top_k, top_p, min_p and repetition_penalty; what is not given keeps SamplingParams' value, and so
// does everything when there is no such file. do_sample is not read: as in vLLM, a request that names no temperature
// samples. INVALID_ARGUMENT names file, field, value and limit.
absl::StatusOr<SamplingParams> ReadSamplingDefaults(const std::string& directory);

}  // namespace dunlin::engine
