// SPDX-License-Identifier: Apache-2.0
// A row's tokens in bins by weight, in shared memory: how many each bin holds, and their weight as an exact integer.
// Integers make the order of the atomic additions immaterial: results depend neither on timing nor on the number of
// lanes.
#pragma once

#include <cmath>

#include "kernels/api/logits.h"
#include "kernels/cuda/device/host_device.h"

namespace dunlin::kernels::cuda {

// 2,048 bins over a row's own range leave some 250 of 128k normally distributed logits in the fullest one.
inline constexpr int32_t kBins = 2048;
inline constexpr int32_t kBinsPerGroup = 32;
inline constexpr int32_t kBinGroups = kBins / kBinsPerGroup;

// The bins of a row: equal steps of (max - logit) / temperature, bin 0 at the largest logit. Equal logits share a bin,
// and a larger logit is never in a later one, since subtraction, division and multiplication round monotonically.
//
// A bin spans at most 87.4 / 2048 of that, a sixteenth of an octave, so its weights lie in three binades at most and
// are multiples of one unit: UnitsOf is exact, below 2^26, and 2^32 of them fit the 64 bits of a sum.
struct WeightBins {
  float bins_per_unit;   // of (max - logit) / temperature
  uint32_t bin_octaves;  // octaves of weight per bin, in 1/65536, rounded down

  // lowest: the row's smallest finite logit. Weights are 0 beyond 87.3, so no bins are spent there.
  DUNLIN_HD static WeightBins Of(float max, float lowest, float temperature) {
    constexpr float kBeyondWeights = 87.4F;
    constexpr float kMostBinsPerUnit = 0x1p100F;
    constexpr float kLog2E = 1.44269504F;
    const float distance = (max - lowest) / temperature;
    const float range = distance < kBeyondWeights ? distance : kBeyondWeights;
    float bins_per_unit = static_cast<float>(kBins) / range;
    if (!(bins_per_unit < kMostBinsPerUnit)) bins_per_unit = kMostBinsPerUnit;  // all logits equal, or nearly
    return {bins_per_unit, static_cast<uint32_t>(kLog2E * 65536.0F / bins_per_unit)};
  }

  // exponent: (logit - max) / temperature of a token with a weight, in [-87.3, 0].
  DUNLIN_HD int32_t BinOf(float exponent) const {
    const float at = -exponent * bins_per_unit;
    return at < static_cast<float>(kBins - 1) ? static_cast<int32_t>(at) : kBins - 1;
  }
  // Weights of a bin are below 2^(1 - octave) and at least 2^-(octave + 2).
  DUNLIN_HD int32_t OctaveOf(int32_t bin) const {
    return static_cast<int32_t>(static_cast<uint32_t>(bin) * bin_octaves >> 16);
  }
  // weight: of a token in `bin`, a normal float.
  DUNLIN_HD uint32_t UnitsOf(float weight, int32_t bin) const {
    const uint32_t bits = FloatBits(weight);
    const int32_t shift = static_cast<int32_t>(bits >> 23) + OctaveOf(bin) - 125;  // 0, 1 or 2
    return ((bits & 0x7FFFFFU) | 0x800000U) << shift;
  }
  // The weight of one unit: a power of two.
  DUNLIN_HD double UnitOf(int32_t bin) const {
    return std::bit_cast<double>(static_cast<uint64_t>(1023 - 25 - OctaveOf(bin)) << 52);
  }
};

// The tokens among which a cut lies: those of a bin, ranked within [low, high].
struct CutRange {
  int32_t bin;
  uint64_t low;
  uint64_t high;
};

// What a block's lanes share while they truncate and draw: 32 KB. Sums of units are two words, because shared memory
// adds 32-bit words natively, and 64 bits only by a loop of compare and swap.
struct SampleShared {
  static constexpr uint32_t kCandidates = 512;
  uint32_t counts[kBins];
  uint32_t units_low[kBins];
  uint32_t units_high[kBins];
  double sums[kBinGroups];      // of groups of bins, then of the bins of one
  uint64_t ranks[kCandidates];  // of the tokens among which a cut lies, in no order
  uint32_t units[kCandidates];
  CutRange range;
  uint32_t num_candidates;
  int32_t chosen;  // bin
  uint32_t cut_key;
  int32_t cut_id;
  double above;  // total of the tokens before the bin
  double target;
  float picked[kWeightBlock];  // the weights of the block of ids in which a draw ended
};

// Adds units to a bin's sum.
template <typename Lanes>
DUNLIN_HD void AddUnits(const Lanes& lanes, SampleShared* shared, int32_t bin, uint32_t units) {
  lanes.AddWide(&shared->units_low[bin], &shared->units_high[bin], units);
}
DUNLIN_HD inline double UnitsIn(const SampleShared& shared, int32_t bin) {
  return static_cast<double>(uint64_t{shared.units_high[bin]} << 32 | shared.units_low[bin]);
}

}  // namespace dunlin::kernels::cuda
