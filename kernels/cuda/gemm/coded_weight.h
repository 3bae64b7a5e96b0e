// SPDX-License-Identifier: Apache-2.0
// Weights of integer codes in groups: their packed layout, and the values of 32 elements at once. A product rounds
// every value to BF16, wherever it is computed.
//
// Tiles of 64 elements of K, the first tile of all rows before the next: first the codes of all tiles, then the
// numbers of their groups. Codes are stored without a sign, code - code_min, 32 to a HalfCodes. K is padded with
// elements whose scale is that of their group, or 0 in a group of its own; they meet zeros in a GEMM's input.
#pragma once

#include <cmath>

#include "kernels/api/code_levels.h"
#include "kernels/api/group_rounding.h"
#include "kernels/cuda/device/layout.h"

namespace dunlin::kernels::cuda {

inline constexpr int32_t kCodeTile = 64;  // elements of K
inline constexpr int32_t kHalfTile = kCodeTile / 2;
static_assert(kHalfTile == kWeightGroup);
inline constexpr int32_t kCodeTileBytesMax = kCodeTile;
inline constexpr int32_t kNumberBytesMax = 32;

// What the kernels need of WeightFormatTraits, whose table is the host's.
struct CodedFormat {
  GroupScales scales = GroupScales::kNone;
  int32_t code_bits = 0;  // 4, 6 or 8
  int32_t group = 0;      // 16 or 32
  int32_t code_min = 0;
  int32_t number_bytes = 0;  // of a row and tile, a multiple of 4; 0: the format is not known here
  // The integers of 4-bit codes of a table, a byte each, code 0 in the lowest; 0: codes are integers themselves.
  uint64_t low_levels = 0;   // of codes 0 to 7; no array, whose elements a kernel would read from local memory
  uint64_t high_levels = 0;  // of codes 8 to 15

  DUNLIN_HD constexpr bool has_levels() const { return low_levels != 0; }
  // Of a code of the table.
  DUNLIN_HD constexpr int32_t Level(uint32_t code) const {
    return static_cast<int8_t>((code < 8 ? low_levels : high_levels) >> (code % 8 * 8) & 0xFFU);
  }

  DUNLIN_HD constexpr int32_t groups() const { return kCodeTile / group; }  // of a tile
  DUNLIN_HD constexpr int32_t code_bytes() const { return kCodeTile / 8 * code_bits; }
};

// Bytes of the numbers of a tile's groups: the groups' own, then the FP16 factors of formats with integer scales.
constexpr int32_t NumberBytes(GroupScales scales, int32_t groups) {
  switch (scales) {
    case GroupScales::kWord:
    case GroupScales::kZeroWord:
    case GroupScales::kHalf:
      return groups * 2;
    case GroupScales::kHalfZero:
      return groups * 4;  // a byte of each is unused
    case GroupScales::kSuper:
      return groups + 4;  // two bytes are unused
    case GroupScales::kSuperMin:
      return groups * 2 + 4;
    case GroupScales::kWideMin:
      return groups * 8;
    case GroupScales::kSuperFloat:
    case GroupScales::kSuperE4M3:
      return 8;  // the FP32 factor first; two of two groups' bytes are unused
    default:
      return 0;
  }
}

// Host.
constexpr CodedFormat CodedFormatOf(WeightFormat format) {
  const WeightFormatTraits& traits = Traits(format);
  const bool known = (traits.code_bits == 4 || traits.code_bits == 6 || traits.code_bits == 8) &&
                     (traits.group == 16 || traits.group == 32);
  if (!known) return {};
  const bool of_table = traits.levels != CodeLevels::kIntegers;
  uint64_t levels[2] = {};
  for (uint32_t i = 0; of_table && i < 16; ++i) {
    levels[i / 8] |= uint64_t{static_cast<uint8_t>(RowOf(traits.levels).values[i])} << (i % 8 * 8);
  }
  return {.scales = traits.scales,
          .code_bits = traits.code_bits,
          .group = traits.group,
          .code_min = of_table ? 0 : traits.code_min(),
          .number_bytes = NumberBytes(traits.scales, kCodeTile / traits.group),
          .low_levels = levels[0],
          .high_levels = levels[1]};
}
constexpr bool IsCoded(WeightFormat format) {
  return CodedFormatOf(format).number_bytes > 0;
}
// Formats that products take.
constexpr bool Multiplies(WeightFormat format) {
  return Traits(format).dtype.has_value() || IsCoded(format);
}

// A packed weight in memory.
struct CodedView {
  unsigned char* data;  // null: not of integer codes
  CodedFormat format;
  int64_t rows;     // out_features
  int64_t columns;  // in_features

  DUNLIN_HD int64_t tiles() const { return (columns + kCodeTile - 1) / kCodeTile; }
  DUNLIN_HD int64_t numbers_offset() const {
    return RoundUpTo(tiles() * PaddedRows(rows) * format.code_bytes(), kScaleAlignment);
  }
  DUNLIN_HD int64_t bytes() const { return numbers_offset() + tiles() * PaddedRows(rows) * format.number_bytes; }
  DUNLIN_HD unsigned char* codes(int64_t row, int64_t tile) const {
    return data + (tile * PaddedRows(rows) + row) * format.code_bytes();
  }
  DUNLIN_HD unsigned char* numbers(int64_t row, int64_t tile) const {
    return data + numbers_offset() + (tile * PaddedRows(rows) + row) * format.number_bytes;
  }
};
inline CodedView CodedViewOf(const PackedWeight& weight) {
  return {static_cast<unsigned char*>(weight.data), CodedFormatOf(weight.format), weight.out_features,
          weight.in_features};
}

// The codes of half a tile's row. 6 bits: the low four of all, then the high two.
template <int kBits>
struct alignas(kBits == 6 ? 8 : 16) HalfCodes {
  uint32_t words[kBits];

  DUNLIN_HD uint32_t Get(int i) const {
    if constexpr (kBits == 8) return words[i / 4] >> (i % 4 * 8) & 0xFFU;
    const uint32_t low = words[i / 8] >> (i % 8 * 4) & 0xFU;
    if constexpr (kBits == 4) return low;
    if constexpr (kBits == 6) return low | (words[4 + i / 16] >> (i % 16 * 2) & 0x3U) << 4;
  }
  // Element i was 0.
  DUNLIN_HD void Put(int i, uint32_t code) {
    if constexpr (kBits == 8) {
      words[i / 4] |= code << (i % 4 * 8);
    } else {
      words[i / 8] |= (code & 0xFU) << (i % 8 * 4);
    }
    if constexpr (kBits == 6) words[4 + i / 16] |= code >> 4 << (i % 16 * 2);
  }
};

// value = scale * (stored code + shift) - minimum, rounded once; of a table's codes the integer is stored + shift.
struct GroupNumbers {
  float scale;
  float shift;  // code_min, less the zero point
  float minimum = 0.0F;

  template <typename Stored>
  DUNLIN_HD float Value(Stored stored) const {
    return fmaf(scale, static_cast<float>(stored) + shift, -minimum);
  }
};

// The numbers of a row's tile in memory.
struct NumbersInMemory {
  const unsigned char* data;
  DUNLIN_HD float Half(int i) const { return FromFp16(Word(i)); }
  DUNLIN_HD uint16_t Word(int i) const { return reinterpret_cast<const uint16_t*>(data)[i]; }
  DUNLIN_HD int8_t Integer(int i) const { return static_cast<int8_t>(data[i]); }
  DUNLIN_HD float Float(int i) const { return reinterpret_cast<const float*>(data)[i]; }
};

// numbers: NumbersInMemory, or a reader of the same members.
template <typename Numbers>
DUNLIN_HD GroupNumbers NumbersOf(const CodedFormat& format, const Numbers& numbers, int group) {
  const auto shift = static_cast<float>(format.code_min);
  switch (format.scales) {
    case GroupScales::kWord:
      return {numbers.Half(group) * kScaleWordUnit, shift};
    case GroupScales::kZeroWord:
      return {numbers.Half(group) * kScaleWordUnit, shift - static_cast<float>(ZeroPointOfWord(numbers.Word(group)))};
    case GroupScales::kHalf:
      return {numbers.Half(group), shift};
    case GroupScales::kHalfZero:
      return {numbers.Half(2 * group), shift - static_cast<float>(numbers.Integer(4 * group + 2))};
    case GroupScales::kSuper:
      return {numbers.Half(format.groups() / 2) * static_cast<float>(numbers.Integer(group)), shift};
    case GroupScales::kSuperMin:
      return {numbers.Half(format.groups()) * static_cast<float>(numbers.Integer(2 * group)), shift,
              numbers.Half(format.groups() + 1) * static_cast<float>(numbers.Integer(2 * group + 1))};
    case GroupScales::kWideMin:
      return {numbers.Float(2 * group), shift, numbers.Float(2 * group + 1)};
    case GroupScales::kSuperFloat:
      return {numbers.Float(0) * static_cast<float>(numbers.Integer(4 + group)), shift};
    case GroupScales::kSuperE4M3:
      return {numbers.Float(0) * FromE4M3(static_cast<uint8_t>(numbers.Integer(4 + group))), shift};
    default:
      return {0.0F, 0.0F};
  }
}

// kTable: whether codes are those of a table.
template <int kBits, bool kTable, typename Visit>
DUNLIN_HD void VisitCodes(const CodedFormat& format, const unsigned char* codes, const unsigned char* numbers, int half,
                          const Visit& visit) {
  const HalfCodes<kBits> held = reinterpret_cast<const HalfCodes<kBits>*>(codes)[half];
  DUNLIN_UNROLL
  for (int part = 0; part < 2; ++part) {  // 16 elements, of one group
    const GroupNumbers group =
        NumbersOf(format, NumbersInMemory{numbers}, (half * kHalfTile + part * 16) / format.group);
    DUNLIN_UNROLL
    for (int i = part * 16; i < part * 16 + 16; i += 2) {
      if constexpr (kTable) {
        visit(i, group.Value(format.Level(held.Get(i))), group.Value(format.Level(held.Get(i + 1))));
      } else {
        visit(i, group.Value(held.Get(i)), group.Value(held.Get(i + 1)));
      }
    }
  }
}

// Calls visit(i, value of element i, value of element i + 1) for the even i below 32 of half a tile's row. codes and
// numbers: of the row and tile, in global or shared memory.
template <typename Visit>
DUNLIN_HD void VisitHalfTile(const CodedFormat& format, const unsigned char* codes, const unsigned char* numbers,
                             int half, const Visit& visit) {
  if (format.has_levels()) return VisitCodes<4, true>(format, codes, numbers, half, visit);
  if (format.code_bits == 4) return VisitCodes<4, false>(format, codes, numbers, half, visit);
  if (format.code_bits == 6) return VisitCodes<6, false>(format, codes, numbers, half, visit);
  VisitCodes<8, false>(format, codes, numbers, half, visit);
}

// Half a tile's row as BF16.
struct alignas(16) HalfTileValues {
  uint32_t pairs[kHalfTile / 2];
};

// Elements from `end` on are 0.
DUNLIN_HD inline HalfTileValues Bf16OfHalfTile(const CodedFormat& format, const unsigned char* codes,
                                               const unsigned char* numbers, int half, int64_t end) {
  HalfTileValues values;
  VisitHalfTile(format, codes, numbers, half, [&](int i, float low, float high) {
    const uint32_t pair = ToBf16(low) | static_cast<uint32_t>(ToBf16(high)) << 16;
    values.pairs[i / 2] = i + 1 < end ? pair : i < end ? pair & 0xFFFFU : 0U;
  });
  return values;
}

// Rows [first_row, first_row + rows) of a weight as a plain BF16 matrix.
struct ExpandCall {
  CodedView weight;
  int64_t first_row;
  int64_t rows;
  unsigned char* out;  // [rows], RowBytes(kBf16, columns) apart, 16-byte aligned

  DUNLIN_HD int64_t halves() const { return weight.tiles() * rows * 2; }
};

// Expands half tile `index` < halves(): the halves of a row's tile are adjacent, then the rows.
DUNLIN_HD inline void ExpandHalfTile(const ExpandCall& call, int64_t index) {
  const auto half = static_cast<int>(index % 2);
  const int64_t row = index / 2 % call.rows;
  const int64_t tile = index / 2 / call.rows;
  const int64_t first = tile * kCodeTile + half * kHalfTile;
  const HalfTileValues values =
      Bf16OfHalfTile(call.weight.format, call.weight.codes(call.first_row + row, tile),
                     call.weight.numbers(call.first_row + row, tile), half, call.weight.columns - first);
  unsigned char* out = call.out + row * RowBytes(Precision::kBf16, call.weight.columns) + first * 2;
  DUNLIN_UNROLL
  for (int i = 0; i < 4; ++i) {
    if (first + 8 * i >= PaddedDepth(call.weight.columns)) break;
    struct alignas(16) Piece {
      uint32_t pairs[4];
    };
    reinterpret_cast<Piece*>(out)[i] = {values.pairs[4 * i], values.pairs[4 * i + 1], values.pairs[4 * i + 2],
                                        values.pairs[4 * i + 3]};
  }
}

// GatherRowsParams of a coded weight, for half tile `half_index` of row `index`. An id outside the weight gives zeros.
struct GatherCodedCall {
  CodedView weight;
  const int32_t* ids;
  float* out;
  bool accumulate;
  float scale;
};
template <typename Lanes>
DUNLIN_HD void GatherCodedRow(const Lanes& lanes, const GatherCodedCall& call, int64_t index) {
  const CodedView& weight = call.weight;
  const int64_t id = call.ids[index];
  const bool known = id >= 0 && id < weight.rows;
  const int64_t row = known ? id : 0;
  for (int64_t at = lanes.index(); at < weight.tiles() * 2; at += lanes.count()) {
    const int64_t tile = at / 2;
    float* out = call.out + index * weight.columns + at * kHalfTile;
    const int64_t end = weight.columns - at * kHalfTile;
    const auto put = [&](int64_t i, float value) {
      const float scaled = known ? value * call.scale : 0.0F;
      if (i < end) out[i] = call.accumulate ? out[i] + scaled : scaled;
    };
    VisitHalfTile(weight.format, weight.codes(row, tile), weight.numbers(row, tile), static_cast<int>(at % 2),
                  [&](int i, float low, float high) {
                    put(i, low);
                    put(i + 1, high);
                  });
  }
}

}  // namespace dunlin::kernels::cuda
