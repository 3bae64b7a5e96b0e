// SPDX-License-Identifier: Apache-2.0
#include "text/utf8.h"

#include <cstddef>
#include <cstdint>

namespace dunlin::text {
namespace {

struct LeadByte {
  size_t trailing = 0;  // continuation bytes that follow; 0: not a lead byte
  uint8_t second_min = 0x80;
  uint8_t second_max = 0xBF;
};

LeadByte ClassifyLead(uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {.trailing = 1};
  if (byte == 0xE0) return {.trailing = 2, .second_min = 0xA0};
  if (byte == 0xED) return {.trailing = 2, .second_max = 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {.trailing = 2};
  if (byte == 0xF0) return {.trailing = 3, .second_min = 0x90};
  if (byte >= 0xF1 && byte <= 0xF3) return {.trailing = 3};
  if (byte == 0xF4) return {.trailing = 3, .second_max = 0x8F};
  return {};
}

}  // namespace

bool IsValidUtf8(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = [&](size_t at) { return static_cast<uint8_t>(text[at]); };
    if (byte(i) < 0x80) continue;
    const LeadByte lead = ClassifyLead(byte(i));
    if (lead.trailing == 0 || text.size() - i <= lead.trailing) return false;
    if (byte(i + 1) < lead.second_min || byte(i + 1) > lead.second_max) return false;
    for (size_t k = 2; k <= lead.trailing; ++k) {
      if ((byte(i + k) & 0xC0) != 0x80) return false;
    }
    i += lead.trailing;
  }
  return true;
}

}  // namespace dunlin::text
