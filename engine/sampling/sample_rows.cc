// SPDX-License-Identifier: Apache-2.0
#include "engine/sampling/sample_rows.h"

namespace dunlin::engine {

bool HasPenalty(const SamplingParams& sampling) {
  return sampling.repetition_penalty != 1.0F || sampling.presence_penalty != 0.0F || sampling.frequency_penalty != 0.0F;
}

kernels::SampleRow DrawRow(const SamplingParams& sampling, int32_t output_index, int32_t position) {
  kernels::SampleRow row;
  static_cast<kernels::DrawParams&>(row) = sampling;
  row.logprobs = sampling.logprobs;
  row.seed = SeedOfOutput(sampling.seed, output_index);
  row.position = position;
  return row;
}

kernels::SampleRow ScoreRow(TokenId token, int32_t logprobs) {
  kernels::SampleRow row;
  row.scored_token = token;
  row.logprobs = logprobs;
  return row;
}

}  // namespace dunlin::engine
