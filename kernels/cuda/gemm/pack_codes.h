// SPDX-License-Identifier: Apache-2.0
// Packing of integer codes, half a tile's row at once: rounded from a plain matrix by kernels/api/group_rounding.h,
// with the CPU's codes, or a checkpoint's own (kernels/api/weight_codes.h).
#pragma once

#include <algorithm>
#include <iterator>

#include "kernels/api/weight_codes.h"
#include "kernels/cuda/gemm/coded_weight.h"
#include "kernels/cuda/gemm/pack_rows.h"

namespace dunlin::kernels::cuda {

// code_min: of the weight's format.
template <int kBits>
DUNLIN_HD void StoreCodes(const int8_t* codes, int32_t code_min, unsigned char* row, int half) {
  HalfCodes<kBits> held{};
  DUNLIN_UNROLL
  for (int i = 0; i < kHalfTile; ++i) held.Put(i, static_cast<uint32_t>(codes[i] - code_min));
  reinterpret_cast<HalfCodes<kBits>*>(row)[half] = held;
}

// Rounds a group of row `index` of the weight; half_index: of the row's halves of tiles. kBits: 4 or 8.
template <int kBits>
DUNLIN_HD void RoundHalfTile(const PackSource& source, const CodedView& weight, int64_t index, int64_t half_index) {
  const PackSource::Row row = source.Begin(SingleLane(), index);
  float values[kWeightGroup];
  int8_t codes[kWeightGroup];
  DUNLIN_UNROLL
  for (int i = 0; i < kWeightGroup; ++i) {
    const int64_t k = half_index * kHalfTile + i;
    values[i] = k < weight.columns ? row.One(k) : 0.0F;
  }
  const uint16_t word = kBits == 4 ? RoundGroupToInt4(values, codes) : RoundGroupToInt8(values, codes);
  const int64_t tile = half_index / 2;
  const auto half = static_cast<int>(half_index % 2);
  StoreCodes<kBits>(codes, weight.format.code_min, weight.codes(index, tile), half);
  reinterpret_cast<uint16_t*>(weight.numbers(index, tile))[half] = word;
}

// Rows of a checkpoint's codes for rows first_row, ... of a weight; all pointers are device memory.
struct CodedSource {
  WeightCodes codes;
  int64_t first_row;
};

// An element's numbers; row: of the source.
struct CodedElement {
  const WeightCodes& codes;
  int64_t block;  // index of its factors
  int64_t group;  // index of its integers

  DUNLIN_HD uint16_t factor() const { return codes.factors[block]; }
  DUNLIN_HD uint16_t min_factor() const { return codes.traits.minimums ? codes.min_factors[block] : uint16_t{0}; }
  DUNLIN_HD int8_t scale() const { return codes.traits.scales ? codes.scales[group] : int8_t{1}; }
  DUNLIN_HD int8_t minimum() const { return codes.traits.minimums ? codes.minimums[group] : int8_t{0}; }
  DUNLIN_HD int8_t zero_point() const { return codes.traits.zero_points ? codes.zero_points[group] : int8_t{0}; }
  DUNLIN_HD float wide_scale() const {
    const float own = codes.traits.wide ? codes.wide_factors[block] : FromFp16(factor());
    return own * (codes.traits.e4m3_scales ? FromE4M3(static_cast<uint8_t>(scale())) : static_cast<float>(scale()));
  }
  DUNLIN_HD float wide_minimum() const {
    if (codes.traits.zero_points) return wide_scale() * static_cast<float>(zero_point());
    return FromFp16(min_factor()) * static_cast<float>(minimum());
  }
};
DUNLIN_HD inline CodedElement ElementAt(const WeightCodes& codes, int64_t columns, int64_t row, int64_t k) {
  return {codes, row * BlocksOf(codes.traits, columns) + k / codes.traits.block,
          row * GroupsOf(codes.traits, columns) + k / codes.traits.group};
}

// Stores the numbers of group `group` of a tile, whose first element is `at`, and the factors that they share.
DUNLIN_HD inline void StoreNumbers(const CodedFormat& format, const CodedElement& at, int32_t group,
                                   unsigned char* numbers) {
  auto* halves = reinterpret_cast<uint16_t*>(numbers);
  auto* integers = reinterpret_cast<int8_t*>(numbers);
  switch (format.scales) {
    case GroupScales::kHalf:
      halves[group] = at.factor();
      return;
    case GroupScales::kHalfZero:
      halves[2 * group] = at.factor();
      integers[4 * group + 2] = at.zero_point();
      return;
    case GroupScales::kSuper:
      integers[group] = at.scale();
      if (group == 0) halves[format.groups() / 2] = at.factor();
      return;
    case GroupScales::kSuperMin:
      integers[2 * group] = at.scale();
      integers[2 * group + 1] = at.minimum();
      if (group != 0) return;
      halves[format.groups()] = at.factor();
      halves[format.groups() + 1] = at.min_factor();
      return;
    case GroupScales::kWideMin:
      reinterpret_cast<float*>(numbers)[2 * group] = at.wide_scale();
      reinterpret_cast<float*>(numbers)[2 * group + 1] = at.wide_minimum();
      return;
    case GroupScales::kSuperFloat:
    case GroupScales::kSuperE4M3:
      if (group == 0) *reinterpret_cast<float*>(numbers) = at.codes.wide_factors[at.block];
      integers[4 + group] = at.scale();
      return;
    default:  // no codes have others
      return;
  }
}

// Of a group past the row's end: all of its values are 0.
DUNLIN_HD inline void ZeroNumbers(const CodedFormat& format, int32_t group, unsigned char* numbers) {
  if (format.has_levels()) {
    numbers[4 + group] = 0;
    return;
  }
  const bool factors = format.scales == GroupScales::kSuper || format.scales == GroupScales::kSuperMin;
  const int32_t own = (format.number_bytes - (factors ? 4 : 0)) / format.groups();
  for (int32_t i = 0; i < own; ++i) numbers[group * own + i] = 0;
}

// The code of an integer of the format's table; 0 of others.
DUNLIN_HD inline int8_t CodeOfLevel(const CodedFormat& format, int32_t integer) {
  int8_t found = 0;
  for (uint32_t code = 16; code-- > 0;) {
    if (format.Level(code) == integer) found = static_cast<int8_t>(code);
  }
  return found;
}

// Row `index` of the weight.
DUNLIN_HD inline void CopyHalfTile(const CodedSource& source, const CodedView& weight, int64_t index,
                                   int64_t half_index) {
  const CodedFormat& format = weight.format;
  const int64_t row = index - source.first_row;
  const int64_t first = half_index * kHalfTile;
  const int64_t tile = half_index / 2;
  const auto half = static_cast<int>(half_index % 2);
  int8_t codes[kHalfTile];
  DUNLIN_UNROLL
  for (int i = 0; i < kHalfTile; ++i) {
    codes[i] = first + i < weight.columns ? source.codes.codes[row * weight.columns + first + i] : int8_t{0};
    if (format.has_levels()) codes[i] = CodeOfLevel(format, codes[i]);
  }
  unsigned char* out = weight.codes(index, tile);
  if (format.code_bits == 4) StoreCodes<4>(codes, format.code_min, out, half);
  if (format.code_bits == 6) StoreCodes<6>(codes, format.code_min, out, half);
  if (format.code_bits == 8) StoreCodes<8>(codes, format.code_min, out, half);
  unsigned char* numbers = weight.numbers(index, tile);
  for (int32_t k = 0; k < kHalfTile; k += format.group) {
    const int32_t group = (half * kHalfTile + k) / format.group;
    if (first + k < weight.columns) {
      StoreNumbers(format, ElementAt(source.codes, weight.columns, row, first + k), group, numbers);
    } else {
      ZeroNumbers(format, group, numbers);
    }
  }
}

// Where the arrays of a part of a checkpoint's rows lie in one block of memory, each 16-byte aligned.
struct CodeArrays {
  static constexpr int kCount = 7;
  struct Array {
    const void* from;       // host memory, of the first row
    int64_t bytes_per_row;  // 0: the traits have no such array
  };
  Array arrays[kCount];

  // Whether every array that the traits have is there.
  bool complete() const {
    return std::all_of(std::begin(arrays), std::end(arrays),
                       [](const Array& array) { return array.bytes_per_row == 0 || array.from != nullptr; });
  }
  int64_t bytes_per_row() const {
    int64_t bytes = 0;
    for (const Array& array : arrays) bytes += array.bytes_per_row;
    return bytes;
  }
  // Rows that fit.
  int64_t RowsIn(int64_t bytes) const { return (bytes - kCount * 16) / bytes_per_row(); }
};
inline CodeArrays ArraysOf(const WeightCodes& codes, int64_t columns) {
  const int64_t blocks = BlocksOf(codes.traits, columns);
  const int64_t groups = GroupsOf(codes.traits, columns);
  const CodeTraits& traits = codes.traits;
  return {{{codes.codes, columns},
           {codes.factors, traits.wide ? 0 : blocks * 2},
           {codes.scales, traits.scales ? groups : 0},
           {codes.min_factors, traits.minimums ? blocks * 2 : 0},
           {codes.minimums, traits.minimums ? groups : 0},
           {codes.zero_points, traits.zero_points ? groups : 0},
           {codes.wide_factors, traits.wide ? blocks * 4 : 0}}};
}
// The codes at the copies of the arrays.
inline WeightCodes CodesAt(const CodeTraits& traits, void* const (&at)[CodeArrays::kCount]) {
  return {.traits = traits,
          .codes = static_cast<const int8_t*>(at[0]),
          .factors = static_cast<const uint16_t*>(at[1]),
          .scales = static_cast<const int8_t*>(at[2]),
          .min_factors = static_cast<const uint16_t*>(at[3]),
          .minimums = static_cast<const int8_t*>(at[4]),
          .zero_points = static_cast<const int8_t*>(at[5]),
          .wide_factors = static_cast<const float*>(at[6])};
}

}  // namespace dunlin::kernels::cuda
