// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/sampling/truncation.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/api/logits.h"

namespace dunlin::kernels::cpu {
namespace {

// A key is read in three digits, most significant first: 11 + 11 + 10 bits.
struct Digit {
  int shift;
  int bits;
};
constexpr Digit kDigits[] = {{21, 11}, {10, 11}, {0, 10}};
constexpr int kNumDigits = 3;

// Distances from the maximum, in units of the temperature, within which most rows have what a cut keeps: weights of at
// least e^-4, e^-8, e^-16. A pass that sums costs a tenth of one that fills the bins.
constexpr float kLikelyDistances[] = {4.0F, 8.0F, 16.0F};
// The sums of SumAbove are within this share of the exact ones: 64 additions in FP32 are within 64 * 2^-24.
constexpr double kSumError = 1e-4;

struct Totals {
  int64_t count = 0;
  double mass = 0.0;
};

// Four lanes as a vector type of the compiler, as in logits_row.cc.
using Floats = float __attribute__((vector_size(16)));
using Bits = int32_t __attribute__((vector_size(16)));

// Of the tokens with weight whose logit is at least `lowest`. Sums of 64 in FP32, of these in FP64.
Totals SumAbove(const float* logits, const float* weights, int32_t vocab_size, float lowest) {
  constexpr int32_t kLanes = 16;
  constexpr int32_t kBlock = 64 * kLanes;
  Totals totals;
  int32_t i = 0;
  while (i + kLanes <= vocab_size) {
    const int32_t end = std::min(i + kBlock, vocab_size / kLanes * kLanes);
    Floats mass[4] = {};
    Bits count[4] = {};
    for (; i < end; i += kLanes) {
#pragma GCC unroll 4
      for (int v = 0; v < 4; ++v) {
        Floats x;
        Floats w;
        std::memcpy(&x, logits + i + 4 * v, sizeof(x));
        std::memcpy(&w, weights + i + 4 * v, sizeof(w));
        w = x >= lowest ? w : Floats{};
        mass[v] += w;
        count[v] -= w > 0.0F;  // a comparison that holds is -1
      }
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      totals.mass += static_cast<double>(mass[lane / 4][lane % 4]);
      totals.count += count[lane / 4][lane % 4];
    }
  }
  for (; i < vocab_size; ++i) {
    const float weight = logits[i] >= lowest ? weights[i] : 0.0F;
    totals.mass += static_cast<double>(weight);
    totals.count += weight > 0.0F ? 1 : 0;
  }
  return totals;
}

}  // namespace

Truncation::Tokens Truncation::ListLikely(const SampleRow& row, const float* logits, float max, int32_t vocab_size,
                                          const float* weights, double target, bool by_mass) {
  for (const float distance : kLikelyDistances) {
    const float lowest = max - distance * row.temperature;
    const Totals totals = SumAbove(logits, weights, vocab_size, lowest);
    const double reached = by_mass ? totals.mass * (1.0 - kSumError) : static_cast<double>(totals.count);
    if (reached < target) continue;
    int32_t count = 0;
    for (int32_t id = 0; id < vocab_size; ++id) {
      kept_[count] = id;
      count += logits[id] >= lowest ? 1 : 0;
    }
    return {kept_, count};
  }
  return {nullptr, vocab_size};
}

void Truncation::Count(const float* logits, const float* weights, Tokens tokens, uint32_t prefix, uint32_t prefix_mask,
                       int digit_index) {
  const Digit& digit = kDigits[digit_index];
  const uint32_t digit_mask = (1U << digit.bits) - 1U;
  std::fill_n(bins_, size_t{1} << digit.bits, Bin{});
  for (int32_t i = 0; i < tokens.count; ++i) {
    const int32_t id = tokens[i];
    const uint32_t key = KeyOfLogit(logits[id]);
    if (!(weights[id] > 0.0F) || (key & prefix_mask) != prefix) continue;
    Bin& bin = bins_[key >> digit.shift & digit_mask];
    ++bin.count;
    bin.mass += static_cast<double>(weights[id]);
  }
}

Truncation::Cut Truncation::FindCut(const float* logits, const float* weights, Tokens tokens, double target,
                                    bool by_mass) {
  const auto amount = [by_mass](const Bin& bin) { return by_mass ? bin.mass : static_cast<double>(bin.count); };
  uint32_t prefix = 0;
  uint32_t prefix_mask = 0;
  double above = 0.0;  // total of the tokens whose key is above the prefix
  Bin last;
  for (int d = 0; d < kNumDigits; ++d) {
    const Digit& digit = kDigits[d];
    const uint32_t digit_mask = (1U << digit.bits) - 1U;
    Count(logits, weights, tokens, prefix, prefix_mask, d);
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
    if (d > 0) continue;
    // One bin of the first digit holds a small part of a row: the other digits are read of that part alone.
    int32_t count = 0;
    for (int32_t i = 0; i < tokens.count; ++i) {
      const int32_t id = tokens[i];
      narrowed_[count] = id;
      count += (KeyOfLogit(logits[id]) & prefix_mask) == prefix ? 1 : 0;
    }
    tokens = {narrowed_, count};
  }
  const double one = by_mass ? last.mass / static_cast<double>(last.count) : 1.0;
  const double wanted = std::ceil((target - above) / one);
  return {.key = prefix, .num_equal = std::clamp(static_cast<int64_t>(wanted), int64_t{1}, last.count)};
}

// Tokens of weight 0 may be listed where the cut is at theirs; they add nothing to any total.
Truncation::Tokens Truncation::Keep(const float* logits, Tokens tokens, Cut cut, int32_t vocab_size, float* weights) {
  auto* kept_weights = reinterpret_cast<float*>(narrowed_);
  int32_t count = 0;
  for (int32_t i = 0; i < tokens.count; ++i) {
    const int32_t id = tokens[i];
    const uint32_t key = KeyOfLogit(logits[id]);
    const bool kept = key > cut.key || (key == cut.key && weights[id] > 0.0F && cut.num_equal-- > 0);
    kept_[count] = id;  // never ahead of what is read, where kept_ is the list
    kept_weights[count] = weights[id];
    count += kept ? 1 : 0;
  }
  std::fill_n(weights, vocab_size, 0.0F);
  for (int32_t i = 0; i < count; ++i) weights[kept_[i]] = kept_weights[i];
  return {kept_, count};
}

void Truncation::Apply(const SampleRow& row, const float* logits, float max, int32_t vocab_size, float* weights) {
  Tokens tokens = {nullptr, vocab_size};
  const auto cut_at = [&](double target, bool by_mass) {
    if (tokens.ids == nullptr) tokens = ListLikely(row, logits, max, vocab_size, weights, target, by_mass);
    tokens = Keep(logits, tokens, FindCut(logits, weights, tokens, target, by_mass), vocab_size, weights);
  };
  if (row.min_p > 0.0F) {
    for (int32_t i = 0; i < vocab_size; ++i) weights[i] = weights[i] >= row.min_p ? weights[i] : 0.0F;
  }
  if (row.top_k > 0 && row.top_k < std::count_if(
                                       weights, weights + vocab_size, [](float w) { return w > 0.0F; })) {
    cut_at(static_cast<double>(row.top_k), /*by_mass=*/false);
  }
  if (row.top_p < 1.0F) {
    double mass = 0.0;
    for (int32_t i = 0; i < tokens.count; ++i) mass += static_cast<double>(weights[tokens[i]]);
    cut_at(static_cast<double>(row.top_p) * mass, /*by_mass=*/true);
  }
}

}  // namespace dunlin::kernels::cpu
