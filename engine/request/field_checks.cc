// SPDX-License-Identifier: Apache-2.0
#include "engine/request/field_checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace dunlin::engine {

std::string LimitOf(FloatRange range) {
  return absl::StrCat(range.open_low ? "(" : "[", range.low, ", ", range.high, "]");
}

std::optional<Violation> CheckFloat(Field field, float value, FloatRange range, FieldIndex index) {
  const bool usable = std::isfinite(value) && std::fpclassify(value) != FP_SUBNORMAL;
  const bool above = range.open_low ? value > range.low : value >= range.low;
  if (usable && above && value <= range.high) return std::nullopt;
  return Violation::Of(field, absl::StrCat("is ", value), LimitOf(range), index);
}

std::optional<Violation> CheckInt(Field field, int64_t value, int64_t low, int64_t high, FieldIndex index) {
  if (value >= low && value <= high) return std::nullopt;
  return Violation::Of(field, absl::StrCat("is ", value), absl::StrCat("[", low, ", ", high, "]"), index);
}

std::optional<Violation> CheckCount(Field field, size_t count, size_t max) {
  if (count <= max) return std::nullopt;
  return Violation::Of(field, absl::StrCat("has ", count, " entries"), absl::StrCat(max));
}

std::optional<Violation> CheckBytes(Field field, size_t bytes, size_t min, size_t max, FieldIndex index) {
  if (bytes >= min && bytes <= max) return std::nullopt;
  return Violation::Of(field, absl::StrCat("has ", bytes, " bytes"), absl::StrCat(min, " to ", max), index);
}

std::optional<Violation> CheckPrintable(Field field, std::string_view text, size_t max) {
  if (auto violation = CheckBytes(field, text.size(), 0, max)) return violation;
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (printable) return std::nullopt;
  return Violation::Of(field, "has bytes that are not printable ASCII", "0x20 to 0x7e");
}

std::optional<Violation> CheckTokenIds(Field field, std::span<const TokenId> ids, int32_t vocab_size,
                                       std::optional<int64_t> first_index) {
  for (size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] >= 0 && ids[i] < vocab_size) continue;
    const auto at = static_cast<int64_t>(i);
    const FieldIndex index = first_index.has_value() ? FieldIndex{*first_index, at} : FieldIndex{at};
    return Violation::Of(field, absl::StrCat("is ", ids[i]), absl::StrCat("[0, ", vocab_size, ")"), index);
  }
  return std::nullopt;
}

}  // namespace dunlin::engine
