// SPDX-License-Identifier: Apache-2.0
// Rows of a device's `sample` (kernels/api/sampling.h) from the parameters of a request.
#pragma once

#include <cstdint>

#include "engine/types.h"
#include "kernels/api/sampling.h"

namespace dunlin::engine {

// Whether the tokens so far change the logits.
bool HasPenalty(const SamplingParams& sampling);

// The row that draws the token at `position`, its edits empty.
kernels::SampleRow DrawRow(const SamplingParams& sampling, int32_t output_index, int32_t position);

// The row that scores a prompt token. logprobs >= 0, as SamplingParams::prompt_logprobs.
kernels::SampleRow ScoreRow(TokenId token, int32_t logprobs);

}  // namespace dunlin::engine
