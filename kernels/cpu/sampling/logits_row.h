// SPDX-License-Identifier: Apache-2.0
// Reductions over one row of FP32 logits, each in one fixed order: sixteen lanes, element i in lane i % 16, lanes
// combined in ascending order. Pure functions, any thread.
#pragma once

#include <cstdint>

#include "kernels/api/sampling.h"

namespace dunlin::kernels::cpu {

struct RowPeak {
  bool valid = false;  // no NaN, no +infinity, at least one finite value
  float max = 0.0F;
  int32_t argmax = 0;  // the lowest id that has `max`
};

// logits [vocab_size], vocab_size > 0. -infinity is an ordinary value: a token that cannot be drawn.
RowPeak FindPeak(const float* logits, int32_t vocab_size);

// log(sum_i e^logits[i]); the sum is FP64. REQUIRES: peak.valid and peak.max is the row's maximum.
double LogSumExp(const float* logits, int32_t vocab_size, float max);

// How many logits are at least `value`: of a token's own logit, its rank from 1, ties counted as vLLM does.
int32_t CountAtLeast(const float* logits, int32_t vocab_size, float value);

// Fills out->top with the num_top most likely tokens (equal ones by lower id) and out->num_top; num_top is cut to
// min(kMaxTopLogprobs, vocab_size). logprob = logit - log_sum_exp.
void FindTopLogprobs(const float* logits, int32_t vocab_size, double log_sum_exp, int32_t num_top, TokenOutput* out);

}  // namespace dunlin::kernels::cpu
