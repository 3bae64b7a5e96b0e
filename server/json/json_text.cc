// SPDX-License-Identifier: Apache-2.0
#include "server/json/json_text.h"

#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr size_t kMaxUtf8Bytes = 4;                        // of a character
constexpr size_t kMaxNumberChars = 32;                     // of a double in its shortest form

void AppendEscape(char c, std::string* out) {
  switch (c) {
    case '"':
      out->append("\\\"");
      break;
    case '\\':
      out->append("\\\\");
      break;
    case '\n':
      out->append("\\n");
      break;
    case '\r':
      out->append("\\r");
      break;
    case '\t':
      out->append("\\t");
      break;
    default:
      out->append("\\u00");
      out->push_back(kHexDigits[static_cast<unsigned char>(c) >> 4U]);
      out->push_back(kHexDigits[static_cast<unsigned char>(c) & 0xFU]);
  }
}

bool NeedsEscape(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == '"' || c == '\\';
}

template <class Number>
void AppendNumber(Number value, std::string* out) {
  if (!std::isfinite(value)) {
    out->append("-9999.0");
    return;
  }
  char digits[kMaxNumberChars];
  const std::to_chars_result end = std::to_chars(digits, digits + kMaxNumberChars, value);
  const std::string_view text(digits, static_cast<size_t>(end.ptr - digits));
  out->append(text);
  // Clients tell numbers with a fraction from integers by their form.
  if (text.find_first_of(".e") == std::string_view::npos) out->append(".0");
}

}  // namespace

void AppendJsonEscaped(std::string_view text, std::string* out) {
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (!NeedsEscape(text[i])) continue;
    out->append(text.substr(begin, i - begin));
    AppendEscape(text[i], out);
    begin = i + 1;
  }
  out->append(text.substr(begin));
}

void AppendJsonString(std::string_view text, std::string* out) {
  out->push_back('"');
  AppendJsonEscaped(text, out);
  out->push_back('"');
}

std::string Utf8OrReplaced(std::string_view bytes) {
  if (text::IsValidUtf8(bytes)) return std::string(bytes);
  std::string text;
  for (size_t i = 0; i < bytes.size();) {
    size_t length = 1;
    while (length <= kMaxUtf8Bytes && !text::IsValidUtf8(bytes.substr(i, length))) ++length;
    const bool valid = length <= kMaxUtf8Bytes && i + length <= bytes.size();
    text.append(valid ? bytes.substr(i, length) : kReplacement);
    i += valid ? length : 1;
  }
  return text;
}

void AppendJsonNumber(float value, std::string* out) {
  AppendNumber(value, out);
}
void AppendJsonNumber(double value, std::string* out) {
  AppendNumber(value, out);
}

void AppendJsonNumbers(std::span<const float> values, std::string* out) {
  out->push_back('[');
  for (const float& value : values) {
    if (&value != values.data()) out->push_back(',');
    AppendJsonNumber(value, out);
  }
  out->push_back(']');
}

void AppendJsonIds(std::span<const engine::TokenId> ids, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < ids.size(); ++i) absl::StrAppend(out, i == 0 ? "" : ",", ids[i]);
  out->push_back(']');
}

void AppendJsonBytes(std::string_view bytes, std::string* out) {
  out->push_back('[');
  for (size_t i = 0; i < bytes.size(); ++i) {
    absl::StrAppend(out, i == 0 ? "" : ",", static_cast<int>(static_cast<unsigned char>(bytes[i])));
  }
  out->push_back(']');
}

void AppendJsonMember(std::string_view name, std::string_view text, std::string* out) {
  out->push_back('"');
  out->append(name);
  out->append("\":");
  AppendJsonString(text, out);
}

}  // namespace dunlin::server
