// SPDX-License-Identifier: Apache-2.0
#include "server/observe/logging/log_text.h"

#include <algorithm>
#include <cstdint>
#include <iterator>

#include "absl/strings/str_format.h"

namespace dunlin::server {
namespace {

struct Range {
  char32_t first;
  char32_t last;
};
// Source: Unicode 15, general categories Cc, Cf (those that terminals obey or do not show), Zl and Zp.
constexpr Range kUnseen[] = {
    {0x0000, 0x001F},    // C0
    {0x007F, 0x009F},    // DEL, C1
    {0x00AD, 0x00AD},    // soft hyphen
    {0x061C, 0x061C},    // Arabic letter mark
    {0x180E, 0x180E},    // Mongolian vowel separator
    {0x200B, 0x200F},    // zero widths, directional marks
    {0x2028, 0x202E},    // line and paragraph separators, embeddings and overrides
    {0x2060, 0x206F},    // joiners, isolates
    {0xFEFF, 0xFEFF},    // byte order mark
    {0xFFF9, 0xFFFB},    // interlinear annotation
    {0xE0000, 0xE007F},  // tags
};

bool IsUnseen(char32_t character) {
  return std::any_of(std::begin(kUnseen), std::end(kUnseen),
                     [character](const Range& range) { return range.first <= character && character <= range.last; });
}

struct Character {
  char32_t value = 0;
  size_t bytes = 0;  // 0: the text does not begin with a character in UTF-8
};

// The first character of a text that is not empty. Source: RFC 3629.
Character FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < bytes) return {};
  char32_t value = lead & (0x7F >> bytes);
  for (const char c : text.substr(1, bytes - 1)) {
    const auto byte = static_cast<unsigned char>(c);
    if ((byte & 0xC0) != 0x80) return {};
    value = value << 6 | (byte & 0x3F);
  }
  constexpr char32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool surrogate = 0xD800 <= value && value <= 0xDFFF;
  return value < kLeast[bytes] || value > 0x10FFFF || surrogate ? Character{} : Character{value, bytes};
}

// Appends the first character of the text, escaped if need be; returns its bytes.
size_t AppendFirst(std::string_view text, std::string* out) {
  const Character first = FirstOf(text);
  if (first.bytes <= 1 && (first.bytes == 0 || IsUnseen(first.value))) {
    absl::StrAppendFormat(out, "\\x%02x", static_cast<unsigned char>(text[0]));
    return 1;
  }
  if (IsUnseen(first.value)) {
    absl::StrAppendFormat(out, "\\u%04x", static_cast<uint32_t>(first.value));
  } else {
    out->append(text.substr(0, first.bytes));
  }
  return first.bytes;
}

}  // namespace

std::string WithoutControls(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) text.remove_prefix(AppendFirst(text, &out));
  return out;
}

std::string LogQuoted(std::string_view text, size_t limit) {
  std::string out = "\"";
  while (!text.empty() && out.size() <= limit) {
    if (text[0] == '"' || text[0] == '\\') out.push_back('\\');
    text.remove_prefix(AppendFirst(text, &out));
  }
  return out + (text.empty() ? "\"" : "\"...");
}

}  // namespace dunlin::server
