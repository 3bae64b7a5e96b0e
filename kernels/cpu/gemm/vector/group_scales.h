// SPDX-License-Identifier: Apache-2.0
// How the scale of a group of integer codes, and its zero point or minimum, are read for sixteen columns: one type for
// each GroupScales (packed_layout.h). Read(panel, group, column): of the panel whose scales start at `panel`, from
// `column` of it on. kGroup: elements of K; kGroupBytes: of a panel's scales, a group's share.
#pragma once

#include "kernels/api/group_rounding.h"
#include "kernels/cpu/gemm/packed_layout.h"
#include "kernels/cpu/simd/lanes.h"

namespace dunlin::kernels::cpu::simd {

// What the sum of the group's inputs is multiplied with.
enum class GroupOffset { kNone, kZeroPoint, kMinimum };

template <typename V>
struct ScaleAndOffset {
  typename V::Floats scale;
  typename V::Floats offset;  // where there is one
};

template <typename V, bool kZeroPoints>
struct ScaleWords {
  static constexpr GroupOffset kOffset = kZeroPoints ? GroupOffset::kZeroPoint : GroupOffset::kNone;
  static constexpr int64_t kGroup = kWeightGroup;
  static constexpr int64_t kGroupBytes = kPanelColumns * 2;
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* panel, int64_t group, int64_t column) {
    const auto* words = reinterpret_cast<const uint16_t*>(panel + group * kGroupBytes) + column;
    const typename V::Floats scale = V::Mul(V::LoadFp16(words), V::Broadcast(kScaleWordUnit));
    if constexpr (!kZeroPoints) return {scale, V::Zero()};
    const typename V::Ints zero_points = V::template ShiftLeft<28>(V::LoadUint16(words));
    return {scale, V::ToFloats(V::template ShiftRightSigned<28>(zero_points))};
  }
};

template <typename V>
struct HalfScales {
  static constexpr GroupOffset kOffset = GroupOffset::kNone;
  static constexpr int64_t kGroup = Traits(WeightFormat::kQ8).group;
  static constexpr int64_t kGroupBytes = kPanelColumns * 2;
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* panel, int64_t group, int64_t column) {
    return {V::LoadFp16(panel + group * kGroupBytes + column * 2), V::Zero()};
  }
};

template <typename V>
struct HalfZeroScales {
  static constexpr GroupOffset kOffset = GroupOffset::kZeroPoint;
  static constexpr int64_t kGroup = Traits(WeightFormat::kQ4Zero).group;
  static constexpr int64_t kGroupBytes = kPanelColumns * 3;
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* panel, int64_t group, int64_t column) {
    const std::byte* scales = panel + group * kGroupBytes;
    return {V::LoadFp16(scales + column * 2), V::ToFloats(V::LoadInt8(scales + kPanelColumns * 2 + column))};
  }
};

template <typename V, WeightFormat kFormat>
struct SuperScales {
  static constexpr bool kMinima = Traits(kFormat).scales == GroupScales::kSuperMin;
  static constexpr GroupOffset kOffset = kMinima ? GroupOffset::kMinimum : GroupOffset::kNone;
  static constexpr int64_t kGroup = Traits(kFormat).group;
  static constexpr int64_t kGroups = kSuperBlock / kGroup;  // of a super-block
  static constexpr auto kSuperBytes = static_cast<int64_t>(SuperScaleBytes(Traits(kFormat).scales, kGroup));
  static constexpr int64_t kGroupBytes = kSuperBytes / kGroups;
  static constexpr int64_t kNumbers = kMinima ? 2 : 1;
  static_assert(kGroupBytes * kGroups == kSuperBytes);
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* panel, int64_t group, int64_t column) {
    const auto index = static_cast<uint64_t>(group);
    const std::byte* factors = panel + index / kGroups * kSuperBytes;
    const std::byte* integers =
        factors + kNumbers * kPanelColumns * 2 + index % kGroups * (kNumbers * kPanelColumns) + column;
    factors += column * 2;
    const typename V::Floats scale = V::Mul(V::LoadFp16(factors), V::ToFloats(V::LoadInt8(integers)));
    if constexpr (!kMinima) return {scale, V::Zero()};
    return {scale,
            V::Mul(V::LoadFp16(factors + kPanelColumns * 2), V::ToFloats(V::LoadInt8(integers + kPanelColumns)))};
  }
};

template <typename V, WeightFormat kFormat>
struct FloatSuperScales {
  static constexpr GroupOffset kOffset = GroupOffset::kNone;
  static constexpr int64_t kGroup = Traits(kFormat).group;
  static constexpr int64_t kGroups = kSuperBlock / kGroup;  // of a super-block
  static constexpr auto kSuperBytes = static_cast<int64_t>(SuperScaleBytes(Traits(kFormat).scales, kGroup));
  static constexpr int64_t kGroupBytes = kSuperBytes / kGroups;
  static_assert(kGroupBytes * kGroups == kSuperBytes);
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* panel, int64_t group, int64_t column) {
    const auto index = static_cast<uint64_t>(group);
    const std::byte* factors = panel + index / kGroups * kSuperBytes;
    const typename V::Ints codes = V::LoadInt8(factors + kPanelColumns * 4 + index % kGroups * kPanelColumns + column);
    return {V::Mul(V::Load(factors + column * 4), Widen(codes)), V::Zero()};
  }

 private:
  // E4M3's exponent and mantissa, moved to those of a float, are those of the number times 2^-120.
  DUNLIN_INLINE typename V::Floats Widen(typename V::Ints codes) {
    if constexpr (Traits(kFormat).scales != GroupScales::kSuperE4M3) return V::ToFloats(codes);
    const auto bits = V::And(V::template ShiftLeft<20>(codes), V::BroadcastInts(static_cast<int32_t>(0x87F00000U)));
    return V::Mul(V::AsFloats(bits), V::Broadcast(0x1p120F));
  }
};

template <typename V>
struct WideScales {
  static constexpr GroupOffset kOffset = GroupOffset::kMinimum;
  static constexpr int64_t kGroup = Traits(WeightFormat::kQ8Wide).group;
  static constexpr int64_t kGroupBytes = kPanelColumns * 8;
  DUNLIN_INLINE ScaleAndOffset<V> Read(const std::byte* panel, int64_t group, int64_t column) {
    const std::byte* scales = panel + group * kGroupBytes + column * 4;
    return {V::Load(scales), V::Load(scales + kPanelColumns * 4)};
  }
};

template <typename V, WeightFormat kFormat>
constexpr auto MakeScales() {
  constexpr GroupScales kScales = Traits(kFormat).scales;
  if constexpr (kScales == GroupScales::kWord) {
    return ScaleWords<V, false>();
  } else if constexpr (kScales == GroupScales::kZeroWord) {
    return ScaleWords<V, true>();
  } else if constexpr (kScales == GroupScales::kHalf) {
    return HalfScales<V>();
  } else if constexpr (kScales == GroupScales::kHalfZero) {
    return HalfZeroScales<V>();
  } else if constexpr (kScales == GroupScales::kWideMin) {
    return WideScales<V>();
  } else if constexpr (Traits(kScales).super_floats()) {
    return FloatSuperScales<V, kFormat>();
  } else {
    return SuperScales<V, kFormat>();
  }
}
// The scales of a format.
template <typename V, WeightFormat kFormat>
using ScalesOf = decltype(MakeScales<V, kFormat>());

}  // namespace dunlin::kernels::cpu::simd
