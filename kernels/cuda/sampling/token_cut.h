// SPDX-License-Identifier: Apache-2.0
// Which tokens of a row may be drawn: min_p, top_k and top_p, each of which keeps a prefix of the tokens ordered by
// (logit descending, id ascending). A prefix is described by two numbers. Its end takes two passes over the row: one
// counts into bins, one collects the bin that holds the end, and the few tokens of it are compared with each other.
// Where they are too many (equal or nearly equal logits), the bin is divided again by two more passes.
#pragma once

#include <cmath>

#include "kernels/api/logits.h"
#include "kernels/cuda/sampling/row_pass.h"
#include "kernels/cuda/sampling/row_scores.h"
#include "kernels/cuda/sampling/weight_bins.h"
#include "kernels/shared/exponential.h"

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

  DUNLIN_HD float Exponent(float logit) const { return (logit - max) / temperature; }
  // The same with what is known of the token; exponent: Exponent(logit).
  DUNLIN_HD float At(int32_t id, float logit, float exponent) const {
    if (!cut.Keeps(KeyOfLogit(logit), id)) return 0.0F;
    const float weight = ExpNonPositive(exponent);
    return weight >= min_p ? weight : 0.0F;
  }
  DUNLIN_HD float operator()(int32_t id) const { return At(id, logits[id], Exponent(logits[id])); }
};

// Searches the cuts of one row. Every lane holds the same values; `shared` is the block's.
template <typename Lanes>
struct CutSearch {
  const Lanes& lanes;
  KeptWeights weights;
  int32_t vocab_size;
  WeightBins bins;
  SampleShared* shared;

  template <bool kByWeight>
  DUNLIN_HD void Clear() const {
    for (int32_t b = lanes.index(); b < kBins; b += lanes.count()) {
      if constexpr (kByWeight) {
        shared->units_low[b] = 0;
        shared->units_high[b] = 0;
      } else {
        shared->counts[b] = 0;
      }
    }
    lanes.Sync();
  }

  // Calls body(rank, bin, weight) for the tokens that have a weight, in bins up to `last_bin`.
  template <typename Body>
  DUNLIN_HD void ForEachWeight(int32_t last_bin, const Body& body) const {
    ForEachLogit(lanes, weights.logits, vocab_size, [&](int32_t id, float logit) {
      const float exponent = weights.Exponent(logit);
      const int32_t bin = bins.BinOf(exponent);
      if (bin > last_bin) return;
      const float weight = weights.At(id, logit, exponent);
      if (weight > 0.0F) body(RankOf(logit, id), bin, weight);
    });
  }

  template <bool kByWeight>
  DUNLIN_HD void Add(int32_t slot, int32_t bin, float weight) const {
    if constexpr (kByWeight) {
      AddUnits(lanes, shared, slot, bins.UnitsOf(weight, bin));
    } else {
      lanes.Count(&shared->counts[slot]);
    }
  }

  // All tokens, each in its bin.
  template <bool kByWeight>
  DUNLIN_HD void FillBins() const {
    Clear<kByWeight>();
    ForEachWeight(kBins, [&](uint64_t, int32_t bin, float weight) { Add<kByWeight>(bin, bin, weight); });
    lanes.Sync();
  }

  // The tokens of the range, in bins of 2^shift ranks, the highest ranks first.
  template <bool kByWeight>
  DUNLIN_HD void DivideRange(int shift) const {
    Clear<kByWeight>();
    ForEachWeight(shared->range.bin, [&](uint64_t rank, int32_t bin, float weight) {
      const CutRange& range = shared->range;
      if (bin != range.bin || rank < range.low || rank > range.high) return;
      Add<kByWeight>(static_cast<int32_t>((range.high - rank) >> shift), bin, weight);
    });
    lanes.Sync();
  }

  // The amount in a bin; of a divided range, all bins have the unit of the range's.
  template <bool kByWeight>
  DUNLIN_HD double AmountIn(int32_t slot, int32_t unit_bin) const {
    if constexpr (kByWeight) return UnitsIn(*shared, slot) * bins.UnitOf(unit_bin);
    return static_cast<double>(shared->counts[slot]);
  }

  // The first of the `count` sums at which the running total from `above` reaches the target, or the last that
  // has an amount where rounding leaves it short: its index and the total before it, in `shared`. Lanes add in the same
  // order, each up to its own. REQUIRES: above < target, which then holds again.
  DUNLIN_HD void Walk(int32_t count) const {
    const double start = shared->above;
    const double target = shared->target;
    lanes.Sync();
    DUNLIN_NO_UNROLL
    for (int32_t i = lanes.index(); i < count; i += lanes.count()) {
      double above = start;
      bool last = true;
      DUNLIN_NO_UNROLL
      for (int32_t k = 0; k < count; ++k) {
        const double amount = shared->sums[k];
        if (k < i) above += amount;
        if (k > i && amount > 0.0) last = false;
      }
      const double amount = shared->sums[i];
      if (amount > 0.0 && above < target && (above + amount >= target || last)) {
        shared->chosen = i;
        shared->above = above;
      }
    }
    lanes.Sync();
  }

  // Leaves in `shared` the bin in which the target is reached, and the total before it: first a group of 32 bins, then
  // one of them. unit_bin: the bin of a divided range, -1 at first. share: the target is this part of the total where
  // it is positive, else the one in `shared`.
  template <bool kByWeight>
  DUNLIN_HD void ChooseBin(int32_t unit_bin, double share) const {
    const auto amount_in = [&](int32_t slot) { return AmountIn<kByWeight>(slot, unit_bin >= 0 ? unit_bin : slot); };
    DUNLIN_NO_UNROLL
    for (int32_t g = lanes.index(); g < kBinGroups; g += lanes.count()) {
      double sum = 0.0;
      DUNLIN_NO_UNROLL
      for (int32_t b = g * kBinsPerGroup; b < (g + 1) * kBinsPerGroup; ++b) sum += amount_in(b);
      shared->sums[g] = sum;
    }
    lanes.Sync();
    if (share > 0.0 && lanes.index() == 0) {
      double total = 0.0;
      for (int32_t g = 0; g < kBinGroups; ++g) total += shared->sums[g];
      shared->target = share * total;
    }
    lanes.Sync();
    Walk(kBinGroups);
    const int32_t first = shared->chosen * kBinsPerGroup;
    for (int32_t b = lanes.index(); b < kBinsPerGroup; b += lanes.count()) shared->sums[b] = amount_in(first + b);
    lanes.Sync();
    Walk(kBinsPerGroup);
    if (lanes.index() == 0) {
      shared->chosen += first;
      if (unit_bin < 0) shared->range = {.bin = shared->chosen, .low = 0, .high = ~uint64_t{0}};
    }
    lanes.Sync();
  }

  DUNLIN_HD void NarrowToKeys(uint32_t lowest, uint32_t highest) const {
    CutRange& range = shared->range;
    const uint64_t low = RankOfKey(lowest, vocab_size - 1);
    const uint64_t high = RankOfKey(highest, 0);
    if (low > range.low) range.low = low;
    if (high < range.high) range.high = high;
  }

  // The range becomes the chosen one of the bins of 2^shift ranks into which it was divided.
  DUNLIN_HD void NarrowToChosen(int shift) const {
    CutRange& range = shared->range;
    range.high -= static_cast<uint64_t>(shared->chosen) << shift;
    const uint64_t span = (uint64_t{1} << shift) - 1;
    if (range.high - range.low > span) range.low = range.high - span;
  }

  // How many tokens the bins hold. All lanes get it.
  DUNLIN_HD uint32_t CountTokens() const {
    uint32_t count = 0;
    for (int32_t b = lanes.index(); b < kBins; b += lanes.count()) count += shared->counts[b];
    if (lanes.index() == 0) shared->num_candidates = 0;
    lanes.Sync();
    lanes.Take(&shared->num_candidates, count);
    lanes.Sync();
    return shared->num_candidates;
  }

  // Collects the tokens of the range, as many as fit, and narrows it to the keys that occur. Where kSumAbove, the
  // units of all tokens above the range go to their bins. Returns how many tokens the range has.
  template <bool kSumAbove>
  DUNLIN_HD uint32_t Collect() const {
    if (lanes.index() == 0) shared->num_candidates = 0;
    if constexpr (kSumAbove) Clear<true>();
    lanes.Sync();
    uint32_t highest = 0;  // key
    uint32_t lowest = 0;   // key, inverted
    ForEachWeight(shared->range.bin, [&](uint64_t rank, int32_t bin, float weight) {
      const CutRange& range = shared->range;
      if (bin == range.bin && rank < range.low) return;
      if (bin < range.bin || rank > range.high) {
        if constexpr (kSumAbove) AddUnits(lanes, shared, bin, bins.UnitsOf(weight, bin));
        return;
      }
      const uint32_t slot = lanes.Take(&shared->num_candidates, 1);
      if (slot < SampleShared::kCandidates) {
        shared->ranks[slot] = rank;
        shared->units[slot] = bins.UnitsOf(weight, bin);
      }
      const auto key = static_cast<uint32_t>(rank >> 32);
      if (key > highest) highest = key;
      if (~key > lowest) lowest = ~key;
    });
    highest = lanes.Max(highest);
    lowest = lanes.Max(lowest);
    if (lanes.index() == 0) NarrowToKeys(~lowest, highest);
    lanes.Sync();
    return shared->num_candidates;
  }

  // Before the first ChooseBin of a cut.
  DUNLIN_HD void StartAt(double target) const {
    if (lanes.index() != 0) return;
    shared->above = 0.0;
    shared->target = target;
  }

  // The cut among the collected tokens: each sums those ranked above it, and the first that reaches the target, or the
  // last one, is the cut. Counts and units are integers, so the order in which tokens were collected is immaterial.
  template <bool kByWeight>
  DUNLIN_HD TokenCut CutAmong(uint32_t count, int32_t bin) const {
    const double above = shared->above;
    const double target = shared->target;
    const double unit = kByWeight ? bins.UnitOf(bin) : 1.0;
    for (auto i = static_cast<uint32_t>(lanes.index()); i < count; i += static_cast<uint32_t>(lanes.count())) {
      const uint64_t rank = shared->ranks[i];
      uint64_t before = 0;
      uint32_t ahead = 0;
      DUNLIN_NO_UNROLL
      for (uint32_t k = 0; k < count; ++k) {
        if (shared->ranks[k] <= rank) continue;
        before += kByWeight ? shared->units[k] : 1;
        ++ahead;
      }
      const uint64_t through = before + (kByWeight ? shared->units[i] : 1);
      const bool first = ahead == 0 || above + static_cast<double>(before) * unit < target;
      const bool reached = ahead + 1 == count || above + static_cast<double>(through) * unit >= target;
      if (first && reached) {
        shared->cut_key = static_cast<uint32_t>(rank >> 32);
        shared->cut_id = IdOf(rank);
      }
    }
    lanes.Sync();
    return {.key = shared->cut_key, .last_id = shared->cut_id};
  }

  // The cut within the bin that ChooseBin left in `shared`. kSumAbove: as Collect, and with the kept tokens of the bin
  // itself, so that the units of all kept tokens are in their bins.
  template <bool kByWeight, bool kSumAbove>
  DUNLIN_HD TokenCut CutInBin() const {
    uint32_t count = Collect<kSumAbove>();
    while (count > SampleShared::kCandidates) {
      int shift = 0;
      while ((shared->range.high - shared->range.low) >> shift >= kBins) ++shift;
      DivideRange<kByWeight>(shift);
      ChooseBin<kByWeight>(shared->range.bin, /*share=*/0.0);
      if (lanes.index() == 0) NarrowToChosen(shift);
      lanes.Sync();
      count = Collect<kSumAbove>();
    }
    const TokenCut cut = CutAmong<kByWeight>(count, shared->range.bin);
    if constexpr (kSumAbove) {
      for (auto i = static_cast<uint32_t>(lanes.index()); i < count; i += static_cast<uint32_t>(lanes.count())) {
        const uint64_t rank = shared->ranks[i];
        if (cut.Keeps(static_cast<uint32_t>(rank >> 32), IdOf(rank))) {
          AddUnits(lanes, shared, shared->range.bin, shared->units[i]);
        }
      }
      lanes.Sync();
    }
    return cut;
  }

  // top_k, then top_p of what remains; min_p is in the weights. Passes over the row: two for either, three for both.
  DUNLIN_HD void Truncate(int32_t top_k, float top_p) {
    bool units_are_summed = false;
    if (top_k > 0 && top_k < vocab_size) {
      FillBins<false>();
      if (static_cast<uint32_t>(top_k) < CountTokens()) {
        StartAt(static_cast<double>(top_k));
        ChooseBin<false>(/*unit_bin=*/-1, /*share=*/0.0);
        units_are_summed = top_p < 1.0F;
        weights.cut = units_are_summed ? CutInBin<false, true>() : CutInBin<false, false>();
      }
    }
    if (top_p < 1.0F) {
      if (!units_are_summed) FillBins<true>();
      StartAt(0.0);
      ChooseBin<true>(/*unit_bin=*/-1, static_cast<double>(top_p));
      weights.cut = CutInBin<true, false>();
    }
  }
};

}  // namespace dunlin::kernels::cuda
