// SPDX-License-Identifier: Apache-2.0
// What is read from a raw row of logits: its most likely tokens and log-probabilities. Maxima are exact for any number
// of lanes; a row's sum is FP64, in an order that depends only on the number of lanes.
#pragma once

#include <cmath>

#include "kernels/api/logits.h"
#include "kernels/cuda/sampling/row_pass.h"
#include "kernels/cuda/sampling/token_rank.h"
#include "kernels/shared/exponential.h"

namespace dunlin::kernels::cuda {

// Rank of a token by (logit, lower id), in one number.
DUNLIN_HD inline uint64_t RankOfKey(uint32_t key, int32_t id) {
  return uint64_t{key} << 32 | ~static_cast<uint32_t>(id);
}
DUNLIN_HD inline uint64_t RankOf(float logit, int32_t id) {
  return RankOfKey(KeyOfLogit(logit), id);
}
DUNLIN_HD inline int32_t IdOf(uint64_t rank) {
  return static_cast<int32_t>(~static_cast<uint32_t>(rank));
}

// The inverse of KeyOfLogit, up to the sign of zero.
DUNLIN_HD inline float LogitOfKey(uint32_t key) {
  return BitsToFloat((key >> 31) != 0 ? key & 0x7FFFFFFFU : ~key);
}

struct RowTop {
  bool valid = false;   // no NaN, no +infinity, at least one finite value
  int32_t id = 0;       // the lowest id with the largest logit
  float lowest = 0.0F;  // the smallest finite logit
};

template <typename Lanes>
DUNLIN_HD RowTop FindTop(const Lanes& lanes, const float* logits, int32_t vocab_size) {
  uint64_t top = 0;
  uint32_t bad = 0;
  uint32_t lowest = 0;  // key, inverted
  ForEachLogit(lanes, logits, vocab_size, [&](int32_t id, float x) {
    if (!(x < INFINITY)) bad = 1;
    const uint64_t rank = RankOf(x, id);
    if (rank > top) top = rank;
    const uint32_t below = ~KeyOfLogit(x);
    if (x > -INFINITY && below > lowest) lowest = below;
  });
  bad = lanes.Max(bad);
  top = lanes.Max(top);
  lowest = lanes.Max(lowest);
  const bool finite = (top >> 32) > KeyOfLogit(-INFINITY);
  return {bad == 0 && finite, IdOf(top), LogitOfKey(~lowest)};
}

template <typename Lanes>
DUNLIN_HD double LogSumOfRow(const Lanes& lanes, const float* logits, int32_t vocab_size, float max) {
  double sums[1] = {};
  ForEachLogit(lanes, logits, vocab_size,
               [&](int32_t, float x) { sums[0] += static_cast<double>(ExpNonPositive(x - max)); });
  lanes.Sums(&sums);
  return static_cast<double>(max) + log(sums[0]);
}

// The largest rank below `bound`; 0 when there is none.
template <typename Lanes>
DUNLIN_HD uint64_t NextRank(const Lanes& lanes, const float* logits, int32_t vocab_size, uint64_t bound) {
  uint64_t next = 0;
  ForEachLogit(lanes, logits, vocab_size, [&](int32_t id, float x) {
    const uint64_t rank = RankOf(x, id);
    if (rank < bound && rank > next) next = rank;
  });
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
