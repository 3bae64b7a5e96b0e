// SPDX-License-Identifier: Apache-2.0
// Which tokens of a row may be drawn: min_p, top_k and top_p, each of which keeps a prefix of the tokens ordered by
// (logit descending, id ascending). A prefix is described by two numbers; its end is found by passes over the row that
// sum above seven bounds at once, three bits of the answer per pass. Without a histogram, sums need no atomics and have
// a fixed order.
#pragma once

#include <cmath>

#include "kernels/api/exponential.h"
#include "kernels/api/logits.h"
#include "kernels/api/philox.h"
#include "kernels/cuda/host_device.h"

namespace dunlin::kernels::cuda {

// The end of a prefix: tokens with a larger key, and those with this key up to an id.
struct TokenCut {
  uint32_t key = 0;
  int32_t last_id = 0x7FFFFFFF;
  DUNLIN_HD bool Keeps(uint32_t token_key, int32_t id) const {
    return token_key > key || (token_key == key && id <= last_id);
  }
};

// Weights of a row: e^((logit - max) / temperature), 0 for tokens below min_p.
struct KeptWeights {
  const float* logits;
  float max;
  float temperature;
  float min_p;
  TokenCut cut = {};

  DUNLIN_HD uint32_t key(int32_t id) const { return KeyOfLogit(logits[id]); }
  DUNLIN_HD float operator()(int32_t id) const {
    const float x = logits[id];
    if (!cut.Keeps(KeyOfLogit(x), id)) return 0.0F;
    const float weight = ExpNonPositive((x - max) / temperature);
    return weight >= min_p ? weight : 0.0F;
  }
};

// The largest bound for which the amounts of the ids ranked at or above it sum to the target or more; 0 when none does.
// amount_of(id) is a double >= 0, rank_of(id) a uint32_t.
template <typename Lanes, typename AmountOf, typename RankOf>
DUNLIN_HD uint32_t LargestBound(const Lanes& lanes, int32_t vocab_size, double target, const AmountOf& amount_of,
                                const RankOf& rank_of) {
  constexpr int kBits = 3;
  constexpr int kBounds = (1 << kBits) - 1;
  uint64_t low = 0;
  DUNLIN_NO_UNROLL
  for (int shift = 30; shift >= 0; shift -= kBits) {
    double totals[kBounds] = {};
    DUNLIN_NO_UNROLL
    for (int32_t id = lanes.index(); id < vocab_size; id += lanes.count()) {
      const uint64_t rank = rank_of(id);
      if (rank < low) continue;
      const double amount = amount_of(id);
      const uint64_t step = (rank - low) >> shift;
      for (int k = 0; k < kBounds; ++k) {
        if (step > static_cast<uint64_t>(k)) totals[k] += amount;
      }
    }
    lanes.Sums(&totals);
    int reached = 0;
    for (int k = 0; k < kBounds; ++k) {
      if (totals[k] >= target) reached = k + 1;
    }
    low += static_cast<uint64_t>(reached) << shift;
  }
  return static_cast<uint32_t>(low);
}

// The prefix whose count or weight reaches the target. REQUIRES: the target is less than the total.
template <bool kByMass, typename Lanes>
DUNLIN_HD TokenCut FindCut(const Lanes& lanes, const KeptWeights& weights, int32_t vocab_size, double target) {
  const auto amount_of = [&](int32_t id) {
    const float weight = weights(id);
    return kByMass ? static_cast<double>(weight) : weight > 0.0F ? 1.0 : 0.0;
  };
  const auto key_of = [&](int32_t id) { return weights.key(id); };
  const uint32_t bound = LargestBound(lanes, vocab_size, target, amount_of, key_of);
  TokenCut cut = weights.cut;
  if (bound > cut.key) cut = TokenCut{.key = bound};
  double sums[3] = {};  // above the key; at the key; number of tokens at the key
  DUNLIN_NO_UNROLL
  for (int32_t id = lanes.index(); id < vocab_size; id += lanes.count()) {
    const uint32_t key = key_of(id);
    if (key < cut.key) continue;
    const double amount = amount_of(id);
    if (key > cut.key) {
      sums[0] += amount;
    } else if (amount > 0.0) {
      sums[1] += amount;
      sums[2] += 1.0;
    }
  }
  lanes.Sums(&sums);
  const double wanted = ceil((target - sums[0]) / (sums[1] / sums[2]));
  if (!(wanted < sums[2])) return cut;
  // Of equal tokens the lower ids stay.
  const auto is_equal = [&](int32_t id) { return key_of(id) == cut.key && weights(id) > 0.0F ? 1.0 : 0.0; };
  const auto id_rank = [](int32_t id) { return ~static_cast<uint32_t>(id); };
  const uint32_t last = LargestBound(lanes, vocab_size, wanted < 1.0 ? 1.0 : wanted, is_equal, id_rank);
  cut.last_id = static_cast<int32_t>(~last);
  return cut;
}

struct WeightTotals {
  double count;
  double mass;
};
template <typename Lanes>
DUNLIN_HD WeightTotals SumWeights(const Lanes& lanes, const KeptWeights& weights, int32_t vocab_size) {
  double sums[2] = {};
  for (int32_t id = lanes.index(); id < vocab_size; id += lanes.count()) {
    const float weight = weights(id);
    sums[0] += weight > 0.0F ? 1.0 : 0.0;
    sums[1] += static_cast<double>(weight);
  }
  lanes.Sums(&sums);
  return {sums[0], sums[1]};
}

// top_k, then top_p of what remains; min_p is in the weights.
template <typename Lanes>
DUNLIN_HD void Truncate(const Lanes& lanes, const SampleRow& row, int32_t vocab_size, KeptWeights* weights) {
  if (row.top_k > 0 && row.top_k < SumWeights(lanes, *weights, vocab_size).count) {
    weights->cut = FindCut<false>(lanes, *weights, vocab_size, static_cast<double>(row.top_k));
  }
  if (row.top_p < 1.0F) {
    const double mass = SumWeights(lanes, *weights, vocab_size).mass;
    weights->cut = FindCut<true>(lanes, *weights, vocab_size, static_cast<double>(row.top_p) * mass);
  }
}

}  // namespace dunlin::kernels::cuda
