// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/terminal.h"

#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace dunlin::cli {
namespace {

// The code point at *position, which moves behind it. Bytes that are no UTF-8 count as characters of their own.
uint32_t NextCodePoint(std::string_view text, size_t* position) {
  const auto first = static_cast<uint8_t>(text[(*position)++]);
  const int more = first >= 0xf0 ? 3 : first >= 0xe0 ? 2 : first >= 0xc0 ? 1 : 0;
  if (more == 0) return first;
  uint32_t code = first & (0x3fU >> more);
  size_t next = *position;
  for (int i = 0; i < more; ++i, ++next) {
    if (next >= text.size() || (static_cast<uint8_t>(text[next]) & 0xc0) != 0x80) return first;
    code = code << 6 | (static_cast<uint8_t>(text[next]) & 0x3f);
  }
  *position = next;
  return code;
}

bool DrivesTerminal(uint32_t code) {
  if (code < 0x20) return code != '\n' && code != '\t';
  if (code >= 0x7f && code < 0xa0) return true;
  return code == 0x200e || code == 0x200f || (code >= 0x202a && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
}

bool IsSet(const char* variable) {
  const char* value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

}  // namespace

TerminalStyle StyleOf(int descriptor) {
  TerminalStyle style;
  style.terminal = isatty(descriptor) == 1;
  const char* kind = std::getenv("TERM");
  style.color = style.terminal && !IsSet("NO_COLOR") && (kind == nullptr || std::strcmp(kind, "dumb") != 0);
  return style;
}

std::string Shown(std::string_view text, const TerminalStyle& style) {
  if (!style.terminal) return std::string(text);
  std::string shown;
  shown.reserve(text.size());
  for (size_t next = 0; next < text.size();) {
    const size_t begin = next;
    const uint32_t code = NextCodePoint(text, &next);
    if (DrivesTerminal(code)) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", code & 0xffffU);
      shown += escape;
    } else {
      shown.append(text.substr(begin, next - begin));
    }
  }
  return shown;
}

std::string Dimmed(std::string_view text, const TerminalStyle& style) {
  if (text.empty() || !style.color) return Shown(text, style);
  return "\x1b[2m" + Shown(text, style) + "\x1b[22m";
}

}  // namespace dunlin::cli
