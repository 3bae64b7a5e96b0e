// SPDX-License-Identifier: Apache-2.0
// Seeded integer codes with the scales and minima that a packed format holds, as a quantised checkpoint has them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "kernels/api/weight_codes.h"

namespace dunlin::tools::bench {

struct CodedWeight {
  kernels::CodeTraits traits{};
  std::vector<int8_t> codes;  // [out_features, in_features], as the vectors below in WeightCodes
  std::vector<uint16_t> factors;
  std::vector<int8_t> scales;
  std::vector<uint16_t> min_factors;
  std::vector<int8_t> minimums;
  std::vector<int8_t> zero_points;
  std::vector<float> wide_factors;

  kernels::WeightCodes View() const;
};

// Whether a format keeps the codes of a checkpoint.
bool KeepsCodes(kernels::WeightFormat format);

// Any codes of the format's range, scales of either sign. REQUIRES: KeepsCodes(format).
CodedWeight MakeCodedWeight(kernels::WeightFormat format, int64_t out_features, int64_t in_features, uint64_t seed);

// A row of inputs as products with 8-bit inputs round it, in groups of `group` elements, <= 32.
std::vector<double> RoundedInputs(std::span<const float> row, int64_t group);

}  // namespace dunlin::tools::bench
