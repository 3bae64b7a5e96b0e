// SPDX-License-Identifier: Apache-2.0
// Rows of a device's `sample` (kernels/api/sampling.h) from the parameters of a request.
#pragma once

#include <cstdint>

#include "engine/request/types.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// Whether the tokens so far change the logits.
bool HasPenalty(const SamplingParams& sampling);

// The seed with which a request of one output draws what output `index` of a request with `seed` draws. The increment
// is SplitMix64's, 2^64 divided by the golden ratio, so that requests with the seeds 1, 2, 3, ... have no output in
// common.
constexpr uint64_t SeedOfOutput(uint64_t seed, int32_t index) {
  return seed + static_cast<uint64_t>(index) * 0x9E3779B97F4A7C15U;
}

// The row that draws the token at `position`, its edits empty. Its output_index stays 0: an output has its own seed.
kernels::SampleRow DrawRow(const SamplingParams& sampling, int32_t output_index, int32_t position);

// The row that scores a prompt token. logprobs >= 0, as SamplingParams::prompt_logprobs.
kernels::SampleRow ScoreRow(TokenId token, int32_t logprobs);

}  // namespace dunlin::engine
