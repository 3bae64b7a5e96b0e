// SPDX-License-Identifier: Apache-2.0
#include "kernels/cpu/gemm/pack_codes.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "kernels/api/code_levels.h"
#include "kernels/cpu/gemm/pack_slice.h"
#include "kernels/cpu/gemm/packed_layout.h"

namespace dunlin::kernels::cpu {
namespace {

// What the rows of the codes have for each of their blocks or groups.
template <typename T>
struct RowValues {
  const T* first;   // of the first column's row, [columns, per_row]; null: every row has `absent`
  int64_t per_row;  // blocks or groups
  T absent;

  // Value `index` of each column's row. Columns are stored side by side, so they come innermost.
  void Copy(int64_t index, int64_t columns, T* out) const {
    if (first == nullptr) {
      std::fill_n(out, columns, absent);
      return;
    }
    for (int64_t c = 0; c < columns; ++c) out[c] = first[c * per_row + index];
  }
};

// Columns of a panel and the rows of the codes that fill them.
struct Columns {
  const PackedWeight* weight;
  const WeightCodes* codes;
  int64_t first_row;
  int64_t first_column;
  int64_t count;

  int64_t depth() const { return weight->in_features; }
  // values: null where the codes have none, as in OfGroups.
  RowValues<uint16_t> OfBlocks(const uint16_t* values) const {
    const int64_t blocks = BlocksOf(codes->traits, depth());
    return {values == nullptr ? nullptr : values + first_row * blocks, blocks, 0};
  }
  RowValues<int8_t> OfGroups(const int8_t* values, int8_t absent) const {
    const int64_t groups = GroupsOf(codes->traits, depth());
    return {values == nullptr ? nullptr : values + first_row * groups, groups, absent};
  }
  RowValues<float> WideFactors() const {
    const int64_t blocks = BlocksOf(codes->traits, depth());
    return {codes->wide_factors + first_row * blocks, blocks, 0.0F};
  }
  RowValues<uint16_t> Factors() const { return OfBlocks(codes->factors); }
  RowValues<uint16_t> MinFactors() const { return OfBlocks(codes->traits.minimums ? codes->min_factors : nullptr); }
  RowValues<int8_t> ZeroPoints() const { return OfGroups(codes->traits.zero_points ? codes->zero_points : nullptr, 0); }
  RowValues<int8_t> Integers() const { return OfGroups(codes->traits.scales ? codes->scales : nullptr, 1); }
  RowValues<int8_t> MinimumIntegers() const { return OfGroups(codes->traits.minimums ? codes->minimums : nullptr, 0); }
};

void PackHalves(const Columns& at, std::byte* scales) {
  auto* words = reinterpret_cast<uint16_t*>(scales) + at.first_column;
  const RowValues<uint16_t> factors = at.Factors();
  const int64_t group = Traits(at.weight->format).group;
  for (int64_t k = 0; k < at.depth(); k += group, words += kPanelColumns) {
    factors.Copy(k / at.codes->traits.block, at.count, words);
  }
}

void PackHalfZeros(const Columns& at, std::byte* scales) {
  constexpr int64_t kGroupBytes = kPanelColumns * 3;
  const RowValues<uint16_t> factors = at.Factors();
  const RowValues<int8_t> zero_points = at.ZeroPoints();
  const int64_t group = Traits(at.weight->format).group;
  for (int64_t k = 0; k < at.depth(); k += group, scales += kGroupBytes) {
    factors.Copy(k / at.codes->traits.block, at.count, reinterpret_cast<uint16_t*>(scales) + at.first_column);
    zero_points.Copy(k / at.codes->traits.group, at.count,
                     reinterpret_cast<int8_t*>(scales + kPanelColumns * 2) + at.first_column);
  }
}

void PackWide(const Columns& at, std::byte* scales) {
  auto* floats = reinterpret_cast<float*>(scales) + at.first_column;
  const int64_t group = Traits(at.weight->format).group;
  for (int64_t k = 0; k < at.depth(); k += group, floats += 2 * kPanelColumns) {
    for (int64_t c = 0; c < at.count; ++c) {
      floats[c] = ScaleAt(*at.codes, at.depth(), at.first_row + c, k);
      floats[kPanelColumns + c] = MinimumAt(*at.codes, at.depth(), at.first_row + c, k);
    }
  }
}

void PackSupers(const Columns& at, std::byte* scales) {
  const WeightFormatTraits& traits = Traits(at.weight->format);
  const bool minima = traits.scales == GroupScales::kSuperMin;
  const int64_t numbers = minima ? 2 : 1;
  const auto super_bytes = static_cast<int64_t>(SuperScaleBytes(traits.scales, traits.group));
  const CodeTraits& codes = at.codes->traits;
  const RowValues<uint16_t> of_blocks[2] = {at.Factors(), at.MinFactors()};
  const RowValues<int8_t> of_groups[2] = {at.Integers(), at.MinimumIntegers()};
  for (int64_t first = 0; first < at.depth(); first += kSuperBlock, scales += super_bytes) {
    auto* factors = reinterpret_cast<uint16_t*>(scales) + at.first_column;
    for (int64_t i = 0; i < numbers; ++i) {
      of_blocks[i].Copy(first / codes.block, at.count, factors + i * kPanelColumns);
    }
    auto* integers = reinterpret_cast<int8_t*>(scales) + numbers * kPanelColumns * 2 + at.first_column;
    const int64_t end = std::min<int64_t>(first + kSuperBlock, at.depth());
    for (int64_t k = first; k < end; k += traits.group) {
      for (int64_t i = 0; i < numbers; ++i, integers += kPanelColumns) {
        of_groups[i].Copy(k / codes.group, at.count, integers);
      }
    }
  }
}

void PackFloatSupers(const Columns& at, std::byte* scales) {
  const WeightFormatTraits& traits = Traits(at.weight->format);
  const auto super_bytes = static_cast<int64_t>(SuperScaleBytes(traits.scales, traits.group));
  const CodeTraits& codes = at.codes->traits;
  const RowValues<float> factors = at.WideFactors();
  const RowValues<int8_t> of_groups = at.Integers();
  for (int64_t first = 0; first < at.depth(); first += kSuperBlock, scales += super_bytes) {
    factors.Copy(first / codes.block, at.count, reinterpret_cast<float*>(scales) + at.first_column);
    auto* integers = reinterpret_cast<int8_t*>(scales) + kPanelColumns * 4 + at.first_column;
    const int64_t end = std::min<int64_t>(first + kSuperBlock, at.depth());
    for (int64_t k = first; k < end; k += traits.group, integers += kPanelColumns) {
      of_groups.Copy(k / codes.group, at.count, integers);
    }
  }
}

void PackScales(const Columns& at, std::byte* scales) {
  switch (Traits(at.weight->format).scales) {
    case GroupScales::kHalf:
      return PackHalves(at, scales);
    case GroupScales::kHalfZero:
      return PackHalfZeros(at, scales);
    case GroupScales::kSuper:
    case GroupScales::kSuperMin:
      return PackSupers(at, scales);
    case GroupScales::kSuperFloat:
    case GroupScales::kSuperE4M3:
      return PackFloatSupers(at, scales);
    case GroupScales::kWideMin:
      return PackWide(at, scales);
    case GroupScales::kNone:
    case GroupScales::kWord:
    case GroupScales::kZeroWord:
      return;
  }
}

// The code of each integer of a table, by its byte.
using LevelCodes = std::array<std::byte, 256>;
constexpr LevelCodes CodesOfLevels(CodeLevels levels) {
  LevelCodes codes{};
  const auto& values = RowOf(levels).values;
  for (size_t i = 16; i-- > 0;) codes[static_cast<uint8_t>(values[i])] = static_cast<std::byte>(i);
  return codes;
}

}  // namespace

void PackCodes(const PackedWeight& weight, const WeightCodes& codes, int64_t first_row, int64_t panel,
               int64_t first_column, int64_t columns, std::byte* staged) {
  const int64_t depth = weight.in_features;
  std::byte* start =
      static_cast<std::byte*>(weight.data) + static_cast<size_t>(panel) * PanelBytes(weight.format, depth);
  // Codes of 8 bits are staged: 48 rows whose distance is a power of two share their sets of the cache. The others are
  // read column by column.
  const CodeLevels levels = Traits(weight.format).levels;
  const bool of_table = levels != CodeLevels::kIntegers;
  const LevelCodes level_codes = CodesOfLevels(levels);
  const bool stage = Traits(weight.format).code_bits == 8 || of_table;
  for (int64_t first = 0; first < depth; first += kSliceDepth) {
    const int64_t real = std::min(kSliceDepth, depth - first);
    const int64_t count = PaddedDepth(weight.format, real);
    const int8_t* slice = codes.codes + first_row * depth + first;
    int64_t stride = depth;
    if (stage || real != count) {
      for (int64_t c = 0; c < columns; ++c) {
        std::byte* out = staged + c * kStagedStride;
        // Not memcpy: GCC expands it to `rep movs` for these sizes, which took as long as packing what it copies.
        std::memmove(out, slice + c * depth, static_cast<size_t>(real));
        std::memset(out + real, 0, static_cast<size_t>(count - real));
        for (int64_t k = 0; of_table && k < real; ++k) out[k] = level_codes[std::to_integer<size_t>(out[k])];
      }
      slice = reinterpret_cast<const int8_t*>(staged);
      stride = kStagedStride;
    }
    ScatterCodes(weight.format, slice, stride, first_column, columns, first, count, start);
  }
  PackScales({&weight, &codes, first_row, first_column, columns}, PanelGroupScales(weight, panel));
}

}  // namespace dunlin::kernels::cpu
