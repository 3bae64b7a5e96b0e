// SPDX-License-Identifier: Apache-2.0
#include "engine/model/checkpoint/integer/integer_codes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/model/checkpoint/integer/integer_values.h"
#include "kernels/api/float_formats.h"

namespace dunlin::engine {
namespace {

constexpr int64_t kGroupUnit = 16;  // of CodeTraits::group
constexpr int64_t kRowUnit = 32;    // that a scale for a whole row is rounded up to: the group of the smallest formats

IntegerCodes Without(std::string reason) {
  return {.traits = std::nullopt, .reason = std::move(reason)};
}

bool IsFp16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  const bool is_normal = ((bits >> 23U & 0xFFU) - 113U) < 30U;
  if (is_normal) return (bits & 0x1FFFU) == 0;
  return kernels::Fp16ToFloat(kernels::FloatToFp16(value)) == value;
}

// At most 16 significant bits, so that products with integers of 8 bits are exact; far from where these overflow.
bool IsShort(float value) {
  return (std::bit_cast<uint32_t>(value) & 0xFFU) == 0 && std::fabs(value) < 0x1p100F;
}

struct ScaleWidths {
  bool all_fp16 = true;
  bool all_short = true;
};

absl::StatusOr<ScaleWidths> WidthsOf(const TensorSource& source, const IntegerWeight& weight) {
  if (weight.scales->dtype->loadable == kernels::DType::kF16) return ScaleWidths();
  const absl::StatusOr<std::vector<float>> scales = ReadPlainScales(source, weight);
  if (!scales.ok()) return scales.status();
  return ScaleWidths{.all_fp16 = std::all_of(scales->begin(), scales->end(), IsFp16),
                     .all_short = std::all_of(scales->begin(), scales->end(), IsShort)};
}

// Zero points less the middle code.
struct ZeroPoints {
  bool any = false;  // that is not 0
  bool fit = true;   // 8 bits

  void Add(int32_t zero_point) {
    any = any || zero_point != 0;
    fit = fit && zero_point <= std::numeric_limits<int8_t>::max();
  }
};

absl::StatusOr<ZeroPoints> ZeroPointsOf(const TensorSource& source, const IntegerWeight& weight) {
  ZeroPoints zeros;
  if (weight.zeros == nullptr) return zeros;
  const absl::StatusOr<std::vector<std::byte>> stored = ReadWhole(source, *weight.zeros);
  if (!stored.ok()) return stored.status();
  if (weight.zeros->dtype->bits == 8) {
    for (size_t i = 0; i < stored->size(); ++i) zeros.Add(ElementAt<int8_t>(*stored, i));
    return zeros;
  }
  const int64_t per_word = kCodeWordBits / weight.bits;
  const int32_t middle = 1 << (weight.bits - 1);
  const uint32_t mask = (1U << weight.bits) - 1U;
  // Words [words, groups] of compressed-tensors, else [groups, words]; the last word of a group's rows may be short.
  const int64_t words = (weight.rows + per_word - 1) / per_word;
  const int64_t stride = weight.layout == IntegerLayout::kPacked ? weight.num_groups : 1;
  for (int64_t i = 0; i < words * weight.num_groups; ++i) {
    const int64_t row = i / stride % words * per_word;
    auto word = ElementAt<uint32_t>(*stored, static_cast<size_t>(i));
    for (int64_t n = row; n < std::min(row + per_word, weight.rows); ++n, word >>= static_cast<uint32_t>(weight.bits)) {
      zeros.Add(static_cast<int32_t>(word & mask) + weight.zero_offset - middle);
    }
  }
  return zeros;
}

}  // namespace

absl::StatusOr<IntegerCodes> DescribeCodes(const TensorSource& source, const IntegerWeight& weight) {
  if (weight.table != nullptr) return Without("codes stand for the values of a table");
  const absl::StatusOr<std::vector<int32_t>> group_of = ReadGroupIndex(source, weight);
  if (!group_of.ok()) return group_of.status();
  for (size_t k = 0; k < group_of->size(); ++k) {
    if ((*group_of)[k] != static_cast<int64_t>(k) / weight.group) {
      return Without("columns are not in the order of their groups");
    }
  }
  const bool whole_row = weight.num_groups == 1;
  const int64_t group = whole_row ? (weight.columns + kRowUnit - 1) / kRowUnit * kRowUnit : weight.group;
  if (group % kGroupUnit != 0) {
    return Without(absl::StrCat("groups have ", group, " columns; limit is a multiple of ", kGroupUnit));
  }
  const absl::StatusOr<ZeroPoints> zeros = ZeroPointsOf(source, weight);
  if (!zeros.ok()) return zeros.status();
  if (!zeros->fit) return Without("a zero point is above the codes");
  const absl::StatusOr<ScaleWidths> widths = WidthsOf(source, weight);
  if (!widths.ok()) return widths.status();
  if (zeros->any && !widths->all_fp16 && !widths->all_short) {
    return Without("products of scales and zero points are not exact");
  }
  const int32_t middle = 1 << (weight.bits - 1);
  return IntegerCodes{.traits = kernels::CodeTraits{.code_min = -middle,
                                                    .code_max = middle - 1,
                                                    .group = static_cast<int32_t>(group),
                                                    .block = static_cast<int32_t>(group),
                                                    .scales = false,
                                                    .minimums = false,
                                                    .zero_points = zeros->any,
                                                    .wide = !widths->all_fp16},
                      .reason = ""};
}

}  // namespace dunlin::engine
