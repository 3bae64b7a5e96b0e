// SPDX-License-Identifier: Apache-2.0
#include "tools/bench/coded_weight.h"

#include <algorithm>

#include "kernels/api/code_levels.h"
#include "kernels/api/float_formats.h"
#include "kernels/api/group_rounding.h"
#include "kernels/api/input_rounding.h"
#include "tools/bench/random_values.h"

namespace dunlin::tools::bench {
namespace {

using kernels::CodeLevels;

// The widest codes of a format, a scale and a minimum for each of its groups where it has them.
kernels::CodeTraits TraitsOf(kernels::WeightFormat format) {
  const kernels::WeightFormatTraits& row = kernels::Traits(format);
  const kernels::GroupScalesTraits& held = kernels::Traits(row.scales);
  const bool of_table = row.levels != CodeLevels::kIntegers;
  const bool super = held.super_bits != 0;
  return {.code_min = of_table ? -127 : row.code_min(),
          .code_max = of_table ? 127 : row.code_min() + (1 << row.code_bits) - 1,
          .group = row.group,
          .block = super ? kernels::kSuperBlock : row.group,
          .scales = super,
          .minimums = held.minimums,
          .zero_points = row.zero_points(),
          .wide = held.super_floats(),
          .levels = row.levels,
          .e4m3_scales = row.scales == kernels::GroupScales::kSuperE4M3};
}

std::vector<int8_t> Integers(uint64_t stream, int64_t count, int32_t least, int32_t most) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  FillIds(stream, most - least + 1, ids);
  std::vector<int8_t> integers;
  integers.reserve(ids.size());
  for (const int32_t id : ids) integers.push_back(static_cast<int8_t>(least + id));
  return integers;
}

// Numbers below 2^-8 in steps of 2^-16.
std::vector<uint16_t> Factors(uint64_t stream, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  FillUniform(stream, values);
  std::vector<uint16_t> factors;
  factors.reserve(values.size());
  for (const float value : values) factors.push_back(kernels::FloatToFp16(value * 0x1p-8F));
  return factors;
}

}  // namespace

kernels::WeightCodes CodedWeight::View() const {
  return {.traits = traits,
          .codes = codes.data(),
          .factors = factors.data(),
          .scales = traits.scales ? scales.data() : nullptr,
          .min_factors = traits.minimums ? min_factors.data() : nullptr,
          .minimums = traits.minimums ? minimums.data() : nullptr,
          .zero_points = traits.zero_points ? zero_points.data() : nullptr,
          .wide_factors = traits.wide ? wide_factors.data() : nullptr};
}

bool KeepsCodes(kernels::WeightFormat format) {
  return kernels::Traits(kernels::Traits(format).scales).keeps_codes;
}

CodedWeight MakeCodedWeight(kernels::WeightFormat format, int64_t out_features, int64_t in_features, uint64_t seed) {
  CodedWeight weight;
  weight.traits = TraitsOf(format);
  const kernels::CodeTraits& traits = weight.traits;
  const int64_t groups = out_features * kernels::GroupsOf(traits, in_features);
  const int64_t blocks = out_features * kernels::BlocksOf(traits, in_features);
  const bool of_table = traits.levels != CodeLevels::kIntegers;
  weight.codes = Integers(StreamOf(seed, 0), out_features * in_features, of_table ? 0 : traits.code_min,
                          of_table ? 15 : traits.code_max);
  weight.factors = Factors(StreamOf(seed, 2), blocks);
  if (of_table) {
    for (int8_t& code : weight.codes) code = kernels::RowOf(traits.levels).values[code];
  }
  if (traits.wide) {
    for (const uint16_t factor : weight.factors) weight.wide_factors.push_back(kernels::Fp16ToFloat(factor));
    weight.scales = Integers(StreamOf(seed, 3), groups, 1, 63);  // as E4M3 at most 7.5
    return weight;
  }
  if (traits.scales) weight.scales = Integers(StreamOf(seed, 3), groups, -128, 127);
  if (traits.zero_points) weight.zero_points = Integers(StreamOf(seed, 6), groups, -8, 7);
  if (!traits.minimums) return weight;
  weight.min_factors = Factors(StreamOf(seed, 4), blocks);
  weight.minimums = Integers(StreamOf(seed, 5), groups, 0, 63);
  return weight;
}

std::vector<double> RoundedInputs(std::span<const float> row, int64_t group) {
  const auto size = static_cast<int64_t>(row.size());
  std::vector<double> values;
  for (int64_t first = 0; first < size; first += group) {
    const int64_t count = std::min(group, size - first);
    int8_t codes[kernels::kWeightGroup];
    const double scale = kernels::RoundInputGroup(row.data() + first, count, codes);
    for (int64_t i = 0; i < count; ++i) values.push_back(scale * codes[i]);
  }
  return values;
}

}  // namespace dunlin::tools::bench
