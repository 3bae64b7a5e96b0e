// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/pack_codes.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/gemm/pack_slice.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

// A column of a panel and the row of the codes that fills it.
struct Column {
  const PackedWeight* weight;
  const WeightCodes* codes;
  int64_t row;
  int64_t column;

  int64_t depth() const { return weight->in_features; }
  uint16_t FactorAt(int64_t k) const {
    return codes->factors[row * BlocksOf(codes->traits, depth()) + k / codes->traits.block];
  }
  uint16_t MinFactorAt(int64_t k) const {
    return codes->traits.minimums ? codes->min_factors[row * BlocksOf(codes->traits, depth()) + k / codes->traits.block]
                                  : uint16_t{0};
  }
  int64_t GroupAt(int64_t k) const { return row * GroupsOf(codes->traits, depth()) + k / codes->traits.group; }
  int8_t ZeroPointAt(int64_t k) const { return codes->traits.zero_points ? codes->zero_points[GroupAt(k)] : int8_t{0}; }
  int8_t IntegerAt(int64_t k) const { return codes->traits.scales ? codes->scales[GroupAt(k)] : int8_t{1}; }
  int8_t MinimumIntegerAt(int64_t k) const { return codes->traits.minimums ? codes->minimums[GroupAt(k)] : int8_t{0}; }
};

void PackHalves(const Column& at, std::byte* scales) {
  auto* words = reinterpret_cast<uint16_t*>(scales) + at.column;
  const int64_t group = Traits(at.weight->format).group;
  for (int64_t k = 0; k < at.depth(); k += group) words[k / group * kPanelColumns] = at.FactorAt(k);
}

void PackHalfZeros(const Column& at, std::byte* scales) {
  constexpr int64_t kGroupBytes = kPanelColumns * 3;
  const int64_t group = Traits(at.weight->format).group;
  for (int64_t k = 0; k < at.depth(); k += group, scales += kGroupBytes) {
    reinterpret_cast<uint16_t*>(scales)[at.column] = at.FactorAt(k);
    reinterpret_cast<int8_t*>(scales + kPanelColumns * 2)[at.column] = at.ZeroPointAt(k);
  }
}

void PackWide(const Column& at, std::byte* scales) {
  auto* floats = reinterpret_cast<float*>(scales) + at.column;
  const int64_t group = Traits(at.weight->format).group;
  for (int64_t k = 0; k < at.depth(); k += group, floats += 2 * kPanelColumns) {
    floats[0] = ScaleAt(*at.codes, at.depth(), at.row, k);
    floats[kPanelColumns] = MinimumAt(*at.codes, at.depth(), at.row, k);
  }
}

void PackSupers(const Column& at, std::byte* scales) {
  const WeightFormatTraits& traits = Traits(at.weight->format);
  const bool minima = traits.scales == GroupScales::kSuperMin;
  const int64_t numbers = minima ? 2 : 1;
  const auto super_bytes = static_cast<int64_t>(SuperScaleBytes(traits.scales, traits.group));
  for (int64_t first = 0; first < at.depth(); first += kSuperBlock, scales += super_bytes) {
    auto* factors = reinterpret_cast<uint16_t*>(scales) + at.column;
    factors[0] = at.FactorAt(first);
    if (minima) factors[kPanelColumns] = at.MinFactorAt(first);
    auto* integers = reinterpret_cast<int8_t*>(scales) + numbers * kPanelColumns * 2 + at.column;
    const int64_t end = std::min<int64_t>(first + kSuperBlock, at.depth());
    for (int64_t k = first; k < end; k += traits.group, integers += numbers * kPanelColumns) {
      integers[0] = at.IntegerAt(k);
      if (minima) integers[kPanelColumns] = at.MinimumIntegerAt(k);
    }
  }
}

void PackScales(const Column& at, std::byte* scales) {
  switch (Traits(at.weight->format).scales) {
    case GroupScales::kHalf:
      return PackHalves(at, scales);
    case GroupScales::kHalfZero:
      return PackHalfZeros(at, scales);
    case GroupScales::kSuper:
    case GroupScales::kSuperMin:
      return PackSupers(at, scales);
    case GroupScales::kWideMin:
      return PackWide(at, scales);
    case GroupScales::kNone:
    case GroupScales::kWord:
    case GroupScales::kZeroWord:
      return;
  }
}

}  // namespace

void PackCodes(const PackedWeight& weight, const WeightCodes& codes, int64_t first_row, int64_t panel,
               int64_t first_column, int64_t columns, std::byte* staged) {
  const int64_t depth = weight.in_features;
  std::byte* start =
      static_cast<std::byte*>(weight.data) + static_cast<size_t>(panel) * PanelBytes(weight.format, depth);
  for (int64_t first = 0; first < depth; first += kSliceDepth) {
    const int64_t real = std::min(kSliceDepth, depth - first);
    const int64_t count = PaddedDepth(weight.format, real);
    for (int64_t c = 0; c < columns; ++c) {
      std::byte* out = staged + c * kStagedStride;
      std::memcpy(out, codes.codes + (first_row + c) * depth + first, static_cast<size_t>(real));
      std::memset(out + real, 0, static_cast<size_t>(count - real));
    }
    ScatterStaged(weight.format, staged, first_column, columns, first, count, start);
  }
  for (int64_t c = 0; c < columns; ++c) {
    PackScales({&weight, &codes, first_row + c, first_column + c}, PanelGroupScales(weight, panel));
  }
}

}  // namespace dunlin::kernels::cpu
