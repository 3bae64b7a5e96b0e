// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/truncation.h"

#include <algorithm>
#include <cmath>

#include "kernels/api/logits.h"

namespace dunlin::kernels::cpu {
namespace {

// A key is read in three digits, most significant first: 11 + 11 + 10 bits.
struct Digit {
  int shift;
  int bits;
};
constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};

struct Totals {
  int64_t count = 0;
  double mass = 0.0;
};

Totals Sum(const float* weights, int32_t vocab_size) {
  Totals totals;
  for (int32_t i = 0; i < vocab_size; ++i) {
    totals.count += weights[i] > 0.0F ? 1 : 0;
    totals.mass += static_cast<double>(weights[i]);
  }
  return totals;
}

}  // namespace

Truncation::Cut Truncation::FindCut(const float* logits, const float* weights, int32_t vocab_size, double target,
                                    bool by_mass) {
  const auto amount = [by_mass](const Bin& bin) { return by_mass ? bin.mass : static_cast<double>(bin.count); };
  uint32_t prefix = 0;
  uint32_t prefix_mask = 0;
  double above = 0.0;  // total of the tokens whose key is above the prefix
  Bin last;
  for (const Digit& digit : kDigits) {
    const uint32_t digit_mask = (1U << digit.bits) - 1U;
    std::fill_n(bins_, kNumBins, Bin{});
    for (int32_t i = 0; i < vocab_size; ++i) {
      const uint32_t key = KeyOfLogit(logits[i]);
      if (!(weights[i] > 0.0F) || (key & prefix_mask) != prefix) continue;
      Bin& bin = bins_[key >> digit.shift & digit_mask];
      ++bin.count;
      bin.mass += static_cast<double>(weights[i]);
    }
    // Downwards to the bin in which the total reaches the target; rounding may leave that to the lowest occupied one.
    uint32_t chosen = digit_mask + 1;
    for (uint32_t b = digit_mask + 1; b-- > 0;) {
      if (bins_[b].count == 0) continue;
      if (chosen <= digit_mask) above += amount(bins_[chosen]);
      chosen = b;
      if (above + amount(bins_[b]) >= target) break;
    }
    last = bins_[chosen];
    prefix |= chosen << digit.shift;
    prefix_mask |= digit_mask << digit.shift;
  }
  const double one = by_mass ? last.mass / static_cast<double>(last.count) : 1.0;
  const double wanted = std::ceil((target - above) / one);
  return {.key = prefix, .num_equal = std::clamp(static_cast<int64_t>(wanted), int64_t{1}, last.count)};
}

void Truncation::Apply(const SampleRow& row, const float* logits, int32_t vocab_size, float* weights) {
  const auto keep = [&](Cut cut) {
    for (int32_t i = 0; i < vocab_size; ++i) {
      const uint32_t key = KeyOfLogit(logits[i]);
      const bool kept = key > cut.key || (key == cut.key && weights[i] > 0.0F && cut.num_equal-- > 0);
      if (!kept) weights[i] = 0.0F;
    }
  };
  if (row.min_p > 0.0F) {
    for (int32_t i = 0; i < vocab_size; ++i) weights[i] = weights[i] >= row.min_p ? weights[i] : 0.0F;
  }
  if (row.top_k > 0 && row.top_k < Sum(weights, vocab_size).count) {
    keep(FindCut(logits, weights, vocab_size, static_cast<double>(row.top_k), /*by_mass=*/false));
  }
  if (row.top_p < 1.0F) {
    const Totals totals = Sum(weights, vocab_size);
    keep(FindCut(logits, weights, vocab_size, static_cast<double>(row.top_p) * totals.mass, /*by_mass=*/true));
  }
}

}  // namespace dunlin::kernels::cpu
