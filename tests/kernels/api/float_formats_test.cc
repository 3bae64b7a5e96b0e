// SPDX-License-Identifier: Apache-2.0
// The scalar conversions against definitions that share no code with them: values by formula, rounding by search.
#include "kernels/api/float_formats.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace dunlin::kernels {
namespace {

// OCP OFP8 E4M3: 1 sign, 4 exponent (bias 7), 3 mantissa; all ones is NaN, there is no infinity.
double E4M3ByDefinition(int code) {
  const double sign = (code & 0x80) != 0 ? -1.0 : 1.0;
  const int exponent = (code >> 3) & 0xF;
  const int mantissa = code & 7;
  if (exponent == 15 && mantissa == 7) return std::numeric_limits<double>::quiet_NaN();
  if (exponent == 0) return sign * std::ldexp(mantissa / 8.0, -6);
  return sign * std::ldexp(1.0 + mantissa / 8.0, exponent - 7);
}

// The nearest finite magnitude; ties go to the even code.
int NearestMagnitude(double magnitude) {
  int best = 0;
  for (int code = 1; code < 0x7F; ++code) {
    const double now = std::fabs(E4M3ByDefinition(code) - magnitude);
    const double before = std::fabs(E4M3ByDefinition(best) - magnitude);
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return best;
}

TEST(FloatFormats, EveryE4M3CodeHasItsDefinedValue) {
  for (int code = 0; code < 256; ++code) {
    const float value = E4M3ToFloat(static_cast<uint8_t>(code));
    const double expected = E4M3ByDefinition(code);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(value)) << code;
    } else {
      EXPECT_EQ(static_cast<double>(value), expected) << code;
      EXPECT_EQ(std::signbit(value), (code & 0x80) != 0) << code;
    }
  }
}

TEST(FloatFormats, EveryE4M3CodeSurvivesTheRoundTrip) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ(FloatToE4M3(E4M3ToFloat(static_cast<uint8_t>(code))), code);
  }
}

TEST(FloatFormats, EveryBf16RoundsToTheNearestE4M3AndSaturates) {
  std::vector<int> nearest(0x8000);  // by magnitude
  for (uint32_t bits = 0; bits <= 0x7F80; ++bits) {
    const float value = Bf16ToFloat(static_cast<uint16_t>(bits));
    nearest[bits] = value >= 448.0F ? 0x7E : NearestMagnitude(static_cast<double>(value));
  }
  std::fill(nearest.begin() + 0x7F81, nearest.end(), 0x7F);
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const int expected = nearest[bits & 0x7FFF] | static_cast<int>((bits >> 8) & 0x80);
    ASSERT_EQ(FloatToE4M3(Bf16ToFloat(static_cast<uint16_t>(bits))), expected) << std::hex << bits;
  }
}

TEST(FloatFormats, FloatsAroundEveryE4M3TieRoundToTheNearerCode) {
  for (int code = 0; code < 0x7E; ++code) {
    const float tie = static_cast<float>((E4M3ByDefinition(code) + E4M3ByDefinition(code + 1)) / 2);
    EXPECT_EQ(FloatToE4M3(std::nextafter(tie, 0.0F)), code);
    EXPECT_EQ(FloatToE4M3(tie), code % 2 == 0 ? code : code + 1);
    EXPECT_EQ(FloatToE4M3(std::nextafter(tie, 1000.0F)), code + 1);
  }
}

TEST(FloatFormats, EveryBf16SurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const bool is_nan = (bits & 0x7FFF) > 0x7F80;
    const uint32_t expected = is_nan ? bits | 0x40 : bits;  // NaN becomes quiet
    ASSERT_EQ(FloatToBf16(Bf16ToFloat(static_cast<uint16_t>(bits))), expected);
  }
}

TEST(FloatFormats, Bf16RoundsToNearestEven) {
  EXPECT_EQ(FloatToBf16(1.0F + 0x1p-8F), 0x3F80);  // tie, down to even
  EXPECT_EQ(FloatToBf16(1.0F + 0x3p-8F), 0x3F82);  // tie, up to even
  EXPECT_EQ(FloatToBf16(1.0F + 0x1.1p-8F), 0x3F81);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7F80);
}

// IEEE 754 binary16 by definition.
double Fp16ByDefinition(uint32_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = static_cast<int>(bits >> 10) & 0x1F;
  const double mantissa = static_cast<double>(bits & 0x3FF) / 1024.0;
  if (exponent == 31) {
    return mantissa != 0.0 ? std::numeric_limits<double>::quiet_NaN() : sign * std::numeric_limits<double>::infinity();
  }
  return sign * (exponent == 0 ? std::ldexp(mantissa, -14) : std::ldexp(1.0 + mantissa, exponent - 15));
}

TEST(FloatFormats, EveryFp16HasItsDefinedValueAndSurvivesTheRoundTrip) {
  for (uint32_t bits = 0; bits <= 0xFFFF; ++bits) {
    const float value = Fp16ToFloat(static_cast<uint16_t>(bits));
    const double expected = Fp16ByDefinition(bits);
    if (std::isnan(expected)) {
      ASSERT_TRUE(std::isnan(value));
      ASSERT_EQ(FloatToFp16(value), (bits & 0x8000) | 0x7E00);
    } else {
      ASSERT_EQ(static_cast<double>(value), expected) << std::hex << bits;
      ASSERT_EQ(FloatToFp16(value), bits);
    }
  }
}

TEST(FloatFormats, FloatsAroundEveryFp16TieRoundToTheNearerValue) {
  for (uint32_t bits = 0; bits < 0x7C00; ++bits) {
    const double above = bits == 0x7BFF ? 65536.0 : Fp16ByDefinition(bits + 1);
    const float tie = static_cast<float>((Fp16ByDefinition(bits) + above) / 2);
    ASSERT_EQ(FloatToFp16(std::nextafter(tie, 0.0F)), bits);
    ASSERT_EQ(FloatToFp16(tie), bits % 2 == 0 ? bits : bits + 1);
    ASSERT_EQ(FloatToFp16(std::nextafter(tie, 1e6F)), bits + 1);
  }
}

}  // namespace
}  // namespace dunlin::kernels
