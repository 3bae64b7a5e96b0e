// SPDX-License-Identifier: Apache-2.0
// A group's scale, zero point and minimum, column by column: for code without vector instructions.
#pragma once

#include <cstring>

#include "kernels/api/float_formats.h"
#include "kernels/api/group_rounding.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

// value = scale * (code - zero point) - minimum.
struct GroupNumbers {
  float scale;
  float zero_point = 0.0F;
  float minimum = 0.0F;
};

template <typename Number>
Number NumberAt(const std::byte* at) {
  Number number;
  std::memcpy(&number, at, sizeof(number));
  return number;
}

// scales: of the panel (packed_layout.h).
template <WeightFormat kFormat>
GroupNumbers ReadGroup(const std::byte* scales, int64_t group, int64_t column) {
  constexpr WeightFormatTraits kTraits = Traits(kFormat);
  if constexpr (kTraits.scales == GroupScales::kWideMin) {
    const std::byte* at = scales + (group * 2 * kPanelColumns + column) * 4;
    return {NumberAt<float>(at), 0.0F, NumberAt<float>(at + kPanelColumns * 4)};
  } else if constexpr (kTraits.scales == GroupScales::kHalfZero) {
    const std::byte* at = scales + group * kPanelColumns * 3;
    return {Fp16ToFloat(NumberAt<uint16_t>(at + column * 2)),
            static_cast<float>(NumberAt<int8_t>(at + kPanelColumns * 2 + column))};
  } else if constexpr (kTraits.scales == GroupScales::kSuper || kTraits.scales == GroupScales::kSuperMin) {
    constexpr bool kMinima = kTraits.scales == GroupScales::kSuperMin;
    constexpr int64_t kGroups = kSuperBlock / kTraits.group;
    constexpr int64_t kNumbers = kMinima ? 2 : 1;
    const std::byte* factors =
        scales + group / kGroups * static_cast<int64_t>(SuperScaleBytes(kTraits.scales, kTraits.group));
    const std::byte* integers =
        factors + kNumbers * kPanelColumns * 2 + group % kGroups * kNumbers * kPanelColumns + column;
    factors += column * 2;
    GroupNumbers numbers{Fp16ToFloat(NumberAt<uint16_t>(factors)) * static_cast<float>(NumberAt<int8_t>(integers))};
    if constexpr (kMinima) {
      numbers.minimum = Fp16ToFloat(NumberAt<uint16_t>(factors + kPanelColumns * 2)) *
                        static_cast<float>(NumberAt<int8_t>(integers + kPanelColumns));
    }
    return numbers;
  } else if constexpr (Traits(kTraits.scales).super_floats()) {
    constexpr int64_t kGroups = kSuperBlock / kTraits.group;
    const std::byte* factors =
        scales + group / kGroups * static_cast<int64_t>(SuperScaleBytes(kTraits.scales, kTraits.group));
    const auto scale = NumberAt<int8_t>(factors + kPanelColumns * 4 + group % kGroups * kPanelColumns + column);
    const bool e4m3 = kTraits.scales == GroupScales::kSuperE4M3;
    return {NumberAt<float>(factors + column * 4) *
            (e4m3 ? E4M3ToFloat(static_cast<uint8_t>(scale)) : static_cast<float>(scale))};
  } else {
    const auto word = NumberAt<uint16_t>(scales + (group * kPanelColumns + column) * 2);
    if constexpr (kTraits.scales == GroupScales::kHalf) return {Fp16ToFloat(word)};
    const bool zero_point = kTraits.scales == GroupScales::kZeroWord;
    return {ScaleOfWord(word), zero_point ? static_cast<float>(ZeroPointOfWord(word)) : 0.0F};
  }
}

}  // namespace
}  // namespace dunlin::kernels::cpu
