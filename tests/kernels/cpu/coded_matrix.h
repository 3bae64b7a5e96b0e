// SPDX-License-Identifier: Apache-2.0
// Random matrices of integer codes, as checkpoints of each kind have them, with their FP64 values.
#pragma once

#include <algorithm>
#include <bit>
#include <random>
#include <string>
#include <vector>

#include "kernels/api/code_levels.h"
#include "kernels/api/weight_codes.h"
#include "tests/kernels/cpu/cpu_fixture.h"

namespace dunlin::kernels::testing_cpu {

struct CodedMatrix {
  CodedMatrix(const CodeTraits& of, int64_t num_rows, int64_t depth, uint32_t seed)
      : traits(of), rows(num_rows), columns(depth) {
    std::mt19937 generator(seed);
    std::normal_distribution<float> normal;
    const auto integer = [&](int32_t low, int32_t high) {
      return static_cast<int8_t>(std::uniform_int_distribution<int32_t>(low, high)(generator));
    };
    const bool of_table = traits.levels != CodeLevels::kIntegers;
    for (int64_t i = 0; i < rows * columns; ++i) {
      codes.push_back(of_table ? RowOf(traits.levels).values[integer(0, traits.levels == CodeLevels::kIq2 ? 5 : 15)]
                               : integer(traits.code_min, traits.code_max));
    }
    for (int64_t i = 0; i < rows * BlocksOf(traits, columns); ++i) {
      factors.push_back(FloatToFp16(normal(generator) * (i % 5 == 4 ? 1e-6F : 0.01F)));  // some are subnormal
      min_factors.push_back(FloatToFp16(normal(generator) * 0.02F));
      // Some are too small for FP16; 16 significant bits beside zero points.
      const float wide = normal(generator) * (i % 5 == 4 ? 1e-9F : 0.01F);
      wide_factors.push_back(traits.zero_points ? FirstBits(wide) : wide);
    }
    for (int64_t i = 0; i < rows * GroupsOf(traits, columns); ++i) {
      const int8_t scale = integer(-128, 127);
      const bool is_nan = traits.e4m3_scales && (scale & 0x7F) == 0x7F;
      scales.push_back(is_nan ? int8_t{0x7E} : scale);
      minimums.push_back(integer(0, 63));
      zero_points.push_back(integer(traits.code_min, traits.code_max + 1 < 127 ? traits.code_max + 1 : 127));
    }
  }

  WeightCodes Rows(int64_t first = 0) const {
    return {.traits = traits,
            .codes = codes.data() + first * columns,
            .factors = traits.wide ? nullptr : factors.data() + first * BlocksOf(traits, columns),
            .scales = traits.scales ? scales.data() + first * GroupsOf(traits, columns) : nullptr,
            .min_factors = traits.minimums ? min_factors.data() + first * BlocksOf(traits, columns) : nullptr,
            .minimums = traits.minimums ? minimums.data() + first * GroupsOf(traits, columns) : nullptr,
            .zero_points = traits.zero_points ? zero_points.data() + first * GroupsOf(traits, columns) : nullptr,
            .wide_factors = traits.wide ? wide_factors.data() + first * BlocksOf(traits, columns) : nullptr};
  }
  // Its first 16 significant bits.
  static float FirstBits(float value) { return std::bit_cast<float>(std::bit_cast<uint32_t>(value) & ~uint32_t{0xFF}); }
  double Scale(int64_t row, int64_t k) const { return ScaleAt(Rows(), columns, row, k); }
  double Minimum(int64_t row, int64_t k) const { return MinimumAt(Rows(), columns, row, k); }
  double Code(int64_t row, int64_t k) const { return codes[static_cast<size_t>(row * columns + k)]; }

  CodeTraits traits;
  int64_t rows;
  int64_t columns;
  std::vector<int8_t> codes;
  std::vector<uint16_t> factors;
  std::vector<int8_t> scales;
  std::vector<uint16_t> min_factors;
  std::vector<int8_t> minimums;
  std::vector<int8_t> zero_points;
  std::vector<float> wide_factors;
};

// A format and the codes that are put into it.
struct CodedForm {
  const char* name;
  WeightFormat format;
  CodeTraits traits;
};
inline constexpr CodedForm kCodedForms[] = {
    {"q8_0", WeightFormat::kQ8, {-128, 127, 32, 32, false, false}},
    {"q5_0", WeightFormat::kQ8, {-16, 15, 32, 32, false, false}},
    {"q4_0", WeightFormat::kQ4, {-8, 7, 32, 32, false, false}},
    {"group128", WeightFormat::kQ4, {-8, 7, 128, 128, false, false}},
    {"q4_k", WeightFormat::kQ4Super, {0, 15, 32, 256, true, true}},
    {"q6_k", WeightFormat::kQ6Super, {-32, 31, 16, 256, true, false}},
    {"q5_k", WeightFormat::kQ6Min, {0, 31, 32, 256, true, true}},
    {"q2_k", WeightFormat::kQ6Min, {0, 3, 16, 256, true, true}},
    {"q6_k_min", WeightFormat::kQ6Min, {-32, 31, 16, 256, true, false}},
    {"q5_1", WeightFormat::kQ8Wide, {0, 31, 32, 32, false, true}},
    {"wide", WeightFormat::kQ8Wide, {-128, 127, 16, 64, true, true}},
    {"float_scales", WeightFormat::kQ8Wide, {-128, 127, 32, 128, false, false, false, true}},
    {"float_scales_zero", WeightFormat::kQ8Wide, {-128, 127, 64, 64, false, false, true, true}},
    {"int8_zero", WeightFormat::kQ8Wide, {-128, 127, 32, 32, false, false, true, false}},
    {"int4_zero", WeightFormat::kQ4Zero, {-8, 7, 32, 32, false, false, true, false}},
    {"group128_zero", WeightFormat::kQ4Zero, {-8, 7, 128, 128, false, false, true, false}},
    {"iq2", WeightFormat::kIq2, {-43, 43, 16, 256, true, false, false, true, CodeLevels::kIq2}},
    {"iq2_xxs", WeightFormat::kIq2, {-43, 43, 32, 256, true, false, false, true, CodeLevels::kIq2}},
    {"iq3", WeightFormat::kIq3, {-62, 62, 32, 256, true, false, false, true, CodeLevels::kIq3}},
    {"odd", WeightFormat::kOdd, {-15, 15, 32, 256, true, false, false, true, CodeLevels::kOdd}},
    {"odd_fine", WeightFormat::kOddFine, {-15, 15, 16, 256, true, false, false, true, CodeLevels::kOdd}},
    {"iq4", WeightFormat::kIq4, {-127, 113, 32, 256, true, false, false, true, CodeLevels::kIq4}},
    {"nvfp4", WeightFormat::kE2M1, {-12, 12, 16, 512, true, false, false, true, CodeLevels::kE2M1, true}},
    {"nvfp4_wide", WeightFormat::kQ8Wide, {-12, 12, 16, 512, true, false, false, true, CodeLevels::kE2M1, true}},
    {"int4_of_any", WeightFormat::kQ4Zero, {-8, 7, 64, 64, false, false, false, false}},
};

inline std::unique_ptr<WeightTensor> PackCoded(Device& device, WeightFormat format, const CodedMatrix& matrix,
                                               bool gated = false) {
  auto tensor = std::make_unique<WeightTensor>(device, format, matrix.rows, matrix.columns);
  tensor->weight.gated = gated;
  const WeightCodes codes = matrix.Rows();
  PackWeightParams params{};
  params.weight = &tensor->weight;
  params.num_rows = matrix.rows;
  params.codes = &codes;
  EXPECT_EQ(device.ops->pack_weight(device.context, params), KernelStatus::kOk);
  return tensor;
}

}  // namespace dunlin::kernels::testing_cpu
