// SPDX-License-Identifier: Apache-2.0
// What is read from a raw row of logits: its most likely tokens and log-probabilities. Maxima are exact for any number
// of lanes; a row's sum is FP64, in an order that depends only on the number of lanes.
#pragma once

#include <cmath>

#include "kernels/api/exponential.h"
#include "kernels/api/logits.h"
#include "kernels/cuda/host_device.h"
#include "kernels/cuda/sampling/token_rank.h"

namespace dunlin::kernels::cuda {

// Rank of a token by (logit, lower id), in one number.
DUNLIN_HD inline uint64_t RankOf(float logit, int32_t id) {
  return uint64_t{KeyOfLogit(logit)} << 32 | ~static_cast<uint32_t>(id);
}
DUNLIN_HD inline int32_t IdOf(uint64_t rank) {
  return static_cast<int32_t>(~static_cast<uint32_t>(rank));
}

struct RowTop {
  bool valid;  // no NaN, no +infinity, at least one finite value
  int32_t id;  // the lowest id with the largest logit
};

template <typename Lanes>
DUNLIN_HD RowTop FindTop(const Lanes& lanes, const float* logits, int32_t vocab_size) {
  uint64_t top = 0;
  uint32_t bad = 0;
  for (int32_t i = lanes.index(); i < vocab_size; i += lanes.count()) {
    const float x = logits[i];
    if (!(x < INFINITY)) bad = 1;
    const uint64_t rank = RankOf(x, i);
    if (rank > top) top = rank;
  }
  bad = lanes.Max(bad);
  top = lanes.Max(top);
  const bool finite = (top >> 32) > KeyOfLogit(-INFINITY);
  return {bad == 0 && finite, IdOf(top)};
}

template <typename Lanes>
DUNLIN_HD double LogSumOfRow(const Lanes& lanes, const float* logits, int32_t vocab_size, float max) {
  double sums[1] = {};
  for (int32_t i = lanes.index(); i < vocab_size; i += lanes.count()) {
    sums[0] += static_cast<double>(ExpNonPositive(logits[i] - max));
  }
  lanes.Sums(&sums);
  return static_cast<double>(max) + log(sums[0]);
}

// The largest rank below `bound`; 0 when there is none.
template <typename Lanes>
DUNLIN_HD uint64_t NextRank(const Lanes& lanes, const float* logits, int32_t vocab_size, uint64_t bound) {
  uint64_t next = 0;
  for (int32_t i = lanes.index(); i < vocab_size; i += lanes.count()) {
    const uint64_t rank = RankOf(logits[i], i);
    if (rank < bound && rank > next) next = rank;
  }
  return lanes.Max(next);
}

// Log-probabilities of `token` and of the most likely tokens. One pass over the row for each, because they are few.
template <typename Lanes>
DUNLIN_HD void ScoreToken(const Lanes& lanes, const SampleParams& params, const SampleRow& row, const float* logits,
                          float max, int32_t token, TokenOutput* out) {
  const double log_sum = LogSumOfRow(lanes, logits, params.vocab_size, max);
  const int32_t token_rank = TokenRank(lanes, logits, params.vocab_size, token);
  const int32_t asked = row.logprobs < kMaxTopLogprobs ? row.logprobs : kMaxTopLogprobs;
  const int32_t count = asked < params.vocab_size ? asked : params.vocab_size;
  uint64_t rank = ~uint64_t{0};
  for (int32_t i = 0; i < count; ++i) {
    rank = NextRank(lanes, logits, params.vocab_size, rank);
    if (lanes.index() != 0) continue;
    const int32_t id = IdOf(rank);
    TopLogprob& top = out->top.data()[i];
    top.token_id = id;
    top.logprob = static_cast<float>(static_cast<double>(logits[id]) - log_sum);
  }
  if (lanes.index() != 0) return;
  out->num_top = count;
  out->rank = token_rank;
  out->logprob = static_cast<float>(static_cast<double>(logits[token]) - log_sum);
}

}  // namespace dunlin::kernels::cuda
