// SPDX-License-Identifier: Apache-2.0
// INT8 and INT4 rounding of groups against plain references in FP64.
#include "kernels/api/group_rounding.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>

namespace dunlin::kernels {
namespace {

using Group = std::array<float, kWeightGroup>;
using Codes = std::array<int8_t, kWeightGroup>;

Group RandomGroup(uint32_t seed, float spread, float offset) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal(offset, spread);
  Group group;
  for (float& value : group) value = normal(generator);
  return group;
}

double ErrorOf(const Group& group, const Codes& codes, double scale, double zero_point) {
  double error = 0.0;
  for (size_t i = 0; i < group.size(); ++i) {
    error += std::pow(static_cast<double>(group[i]) - (codes[i] - zero_point) * scale, 2);
  }
  return error;
}

// The error of codes in [0, 15] between the extremes, zero included; and of codes in [-8, 7] with -8 or 8 at the
// largest.
double RangeError(const Group& group) {
  double low = 0.0;
  double high = 0.0;
  for (const float value : group) {
    low = std::fmin(low, value);
    high = std::fmax(high, value);
  }
  const double scale = (high - low) / 15;
  const double zero_point = std::nearbyint(-low / scale);
  double error = 0.0;
  for (const float value : group) {
    const double code = std::fmin(15.0, std::fmax(0.0, std::nearbyint(value / scale + zero_point)));
    error += std::pow(value - (code - zero_point) * scale, 2);
  }
  return error;
}
double SymmetricError(const Group& group) {
  double largest = 0.0;
  for (const float value : group) {
    if (std::fabs(value) > std::fabs(largest)) largest = value;
  }
  const double scale = -largest / 8;  // negative where the largest is positive
  double error = 0.0;
  for (const float value : group) {
    const double code = std::fmin(7.0, std::fmax(-8.0, std::nearbyint(value / scale)));
    error += std::pow(value - code * scale, 2);
  }
  return error;
}

TEST(GroupRounding, Int4IsAsGoodAsTheBetterOfSymmetricAndAsymmetric) {
  double sum = 0.0;
  double better_sum = 0.0;
  for (uint32_t seed = 0; seed < 2000; ++seed) {
    const Group group = RandomGroup(seed, std::exp2(static_cast<float>(seed % 24) - 16.0F),
                                    seed % 3 == 0 ? std::exp2(static_cast<float>(seed % 24) - 16.0F) : 0.0F);
    Codes codes;
    const uint16_t word = RoundGroupToInt4(group.data(), codes.data());
    const double error = ErrorOf(group, codes, ScaleOfWord(word), ZeroPointOfWord(word));
    const double better = std::fmin(RangeError(group), SymmetricError(group));
    EXPECT_LT(error, better * 1.15) << seed;  // the scale has 6 bits beside the zero point
    sum += error / better;
    better_sum += 1.0;
    for (const int8_t code : codes) EXPECT_TRUE(code >= -8 && code <= 7);
  }
  EXPECT_LT(sum / better_sum, 1.01);
}

TEST(GroupRounding, Int8RoundsToTheNearestOfItsScale) {
  for (uint32_t seed = 0; seed < 500; ++seed) {
    const Group group = RandomGroup(seed, std::exp2(static_cast<float>(seed % 24) - 16.0F), 0.0F);
    Codes codes;
    const double scale = ScaleOfWord(RoundGroupToInt8(group.data(), codes.data()));
    double largest = 0.0;
    for (size_t i = 0; i < group.size(); ++i) {
      largest = std::fmax(largest, std::fabs(group[i]));
      // The scale's own rounding may cut the largest by 127 * 2^-11.
      EXPECT_LE(std::fabs(group[i] - codes[i] * scale), scale * 0.5625) << seed;
    }
    EXPECT_NEAR(scale, largest / 127, largest / 127 * 0x1p-11);
  }
}

TEST(GroupRounding, ScaleWordsAreTheNearest) {
  for (uint32_t word = 1; word < 0x7BE0; word += 7) {
    const float scale = ScaleOfWord(static_cast<uint16_t>(word));
    EXPECT_EQ(NearestScaleWord(scale, 0, 0), word);
    EXPECT_EQ(NearestScaleWord(scale, 4, static_cast<int32_t>(word & 0xFU)), word);
    const uint16_t other = NearestScaleWord(scale, 4, static_cast<int32_t>((word + 5) & 0xFU));
    EXPECT_EQ(other & 0xF, (word + 5) & 0xF);
    EXPECT_LE(std::abs(static_cast<int32_t>(other) - static_cast<int32_t>(word)), 8);
  }
  EXPECT_EQ(ScaleOfWord(0x3C00), 0x1p-8F);
  EXPECT_EQ(NearestScaleWord(1e30F, 4, 3), 0x7BF3);
  EXPECT_EQ(NearestScaleWord(0.0F, 4, 3), 3);
  EXPECT_EQ(ZeroPointOfWord(0x1238), -8);
  EXPECT_EQ(ZeroPointOfWord(0x1237), 7);
}

TEST(GroupRounding, ZerosAreExactAndValuesThatAreNotFiniteMakeTheGroupNan) {
  Codes codes;
  const Group zeros{};
  const uint16_t word = RoundGroupToInt4(zeros.data(), codes.data());
  for (const int8_t code : codes) EXPECT_EQ(code, ZeroPointOfWord(word));
  RoundGroupToInt8(zeros.data(), codes.data());
  for (const int8_t code : codes) EXPECT_EQ(code, 0);
  const auto words = [&](float odd) {
    Group group = RandomGroup(1, 1.0F, 0.0F);
    group[5] = odd;
    return std::array{RoundGroupToInt4(group.data(), codes.data()), RoundGroupToInt8(group.data(), codes.data())};
  };
  for (const float odd : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                          -std::numeric_limits<float>::infinity()}) {
    for (const uint16_t scale : words(odd)) EXPECT_TRUE(std::isnan(ScaleOfWord(scale))) << odd;
  }
  for (const float odd : {std::numeric_limits<float>::max(), 1e-40F}) {
    for (const uint16_t scale : words(odd)) EXPECT_TRUE(std::isfinite(ScaleOfWord(scale))) << odd;
  }
}

}  // namespace
}  // namespace dunlin::kernels
