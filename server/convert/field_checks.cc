#include "server/convert/field_checks.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "server/convert/errors.h"

namespace dunlin::server {

absl::Status CheckFloat(std::string_view field, float value, FloatRange range) {
  const bool usable = std::isfinite(value) && std::fpclassify(value) != FP_SUBNORMAL;
  const bool above = range.open_low ? value > range.low : value >= range.low;
  if (usable && above && value <= range.high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("is ", value),
                      absl::StrCat(range.open_low ? "(" : "[", range.low, ", ", range.high, "]"));
}

absl::Status CheckInt(std::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("is ", value), absl::StrCat("[", low, ", ", high, "]"));
}

absl::Status CheckCount(std::string_view field, size_t count, size_t max) {
  if (count <= max) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("has ", count, " entries"), absl::StrCat(max));
}

absl::Status CheckBytes(std::string_view field, size_t bytes, size_t min, size_t max) {
  if (bytes >= min && bytes <= max) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("has ", bytes, " bytes"), absl::StrCat(min, " to ", max));
}

absl::Status CheckPrintable(std::string_view field, std::string_view text, size_t max) {
  if (absl::Status status = CheckBytes(field, text.size(), 0, max); !status.ok()) return status;
  const bool printable = std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c <= 0x7e; });
  if (printable) return absl::OkStatus();
  return InvalidField(field, "has bytes that are not printable ASCII", "0x20 to 0x7e");
}

absl::Status CheckTokenId(std::string_view field, int32_t id, int32_t vocab_size) {
  if (id >= 0 && id < vocab_size) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("is ", id), absl::StrCat("[0, ", vocab_size, ")"));
}

}  // namespace dunlin::server
