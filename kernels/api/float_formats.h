// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between FP32 and BF16, FP16 and E4M3, rounding to nearest even; the reference of the vector code.
// BF16 and FP16 overflow to infinity; E4M3 saturates to +-448 and keeps NaN as 0x7F (sign kept). Source: OCP OFP8 1.0.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

namespace dunlin::kernels {

inline constexpr float kE4M3Max = 448.0F;

constexpr float Bf16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<uint16_t>((bits >> 16) | 0x0040U);  // quiet NaN
  return static_cast<uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16);
}

constexpr float Fp16ToFloat(uint16_t bits) {
  const uint32_t sign = static_cast<uint32_t>(bits & 0x8000U) << 16;
  const uint32_t magnitude = bits & 0x7FFFU;
  if (magnitude >= 0x7C00U) return std::bit_cast<float>(sign | 0x7F800000U | ((magnitude & 0x3FFU) << 13));
  if (magnitude >= 0x0400U) return std::bit_cast<float>(sign | ((magnitude << 13) + 0x38000000U));
  const float subnormal = static_cast<float>(magnitude) * 0x1p-24F;
  return sign != 0 ? -subnormal : subnormal;
}

inline uint16_t FloatToFp16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint16_t sign = static_cast<uint16_t>((bits >> 16) & 0x8000U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint16_t>(sign | 0x7E00U);
  if (magnitude >= 0x477FF000U) return static_cast<uint16_t>(sign | 0x7C00U);  // rounds to 65536 or more
  if (magnitude < 0x38800000U) {                                               // below 2^-14: a multiple of 2^-24
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p24F;
    return static_cast<uint16_t>(sign | static_cast<uint16_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0xFFFU + ((magnitude >> 13) & 1U);
  return static_cast<uint16_t>(sign | ((rounded - 0x38000000U) >> 13));
}

constexpr float E4M3ToFloat(uint8_t code) {
  const uint32_t magnitude = code & 0x7FU;
  float value = 0.0F;
  if (magnitude == 0x7FU) {
    value = std::bit_cast<float>(0x7FC00000U);
  } else if (magnitude >= 8) {
    value = std::bit_cast<float>((magnitude << 20) + (120U << 23));
  } else {
    value = static_cast<float>(magnitude) * 0x1p-9F;
  }
  return (code & 0x80U) != 0 ? -value : value;
}

inline uint8_t FloatToE4M3(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint8_t sign = static_cast<uint8_t>((bits >> 24) & 0x80U);
  const uint32_t magnitude = bits & 0x7FFFFFFFU;
  if (magnitude > 0x7F800000U) return static_cast<uint8_t>(sign | 0x7FU);
  if (magnitude >= std::bit_cast<uint32_t>(kE4M3Max)) return static_cast<uint8_t>(sign | 0x7EU);
  if (magnitude < (121U << 23)) {  // below 2^-6: a multiple of 2^-9
    const float scaled = std::bit_cast<float>(magnitude) * 0x1p9F;
    return static_cast<uint8_t>(sign | static_cast<uint8_t>(std::nearbyint(scaled)));
  }
  const uint32_t rounded = magnitude + 0x7FFFFU + ((magnitude >> 20) & 1U);
  return static_cast<uint8_t>(sign | ((rounded - (120U << 23)) >> 20));
}

}  // namespace dunlin::kernels
