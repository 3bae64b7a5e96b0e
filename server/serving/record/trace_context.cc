// SPDX-License-Identifier: Apache-2.0
#include "server/serving/record/trace_context.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace dunlin::server {
namespace {

constexpr size_t kParentBytes = 55;  // of version 00, and of the part of later ones that is read
constexpr uint8_t kNoVersion = 0xFF;
constexpr uint8_t kSampledFlag = 1;

constexpr size_t kMaxKeyBytes = 256;
constexpr size_t kMaxValueBytes = 256;

bool IsLower(char c) {
  return c >= 'a' && c <= 'z';
}

bool IsDigit(char c) {
  return c >= '0' && c <= '9';
}

// The value of a hexadecimal digit in lower case, or -1.
int DigitOf(char c) {
  if (IsDigit(c)) return c - '0';
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

template <size_t kBytes>
bool ParseHex(std::string_view text, std::array<uint8_t, kBytes>* bytes) {
  for (size_t i = 0; i < kBytes; ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) return false;
    (*bytes)[i] = static_cast<uint8_t>(high * 16 + low);
  }
  return true;
}

template <size_t kBytes>
bool AllZero(const std::array<uint8_t, kBytes>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

std::string_view WithoutSpaces(std::string_view text) {
  constexpr std::string_view kSpaces = " \t";
  const size_t first = text.find_first_not_of(kSpaces);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpaces) - first + 1);
}

bool IsKey(std::string_view key) {
  if (key.empty() || key.size() > kMaxKeyBytes || (!IsLower(key[0]) && !IsDigit(key[0]))) return false;
  if (std::count(key.begin(), key.end(), '@') > 1) return false;
  return std::all_of(key.begin(), key.end(), [](char c) {
    return IsLower(c) || IsDigit(c) || c == '_' || c == '-' || c == '*' || c == '/' || c == '@';
  });
}

bool IsValue(std::string_view value) {
  if (value.empty() || value.size() > kMaxValueBytes || value.back() == ' ') return false;
  return std::all_of(value.begin(), value.end(), [](char c) { return c >= ' ' && c <= '~' && c != ',' && c != '='; });
}

bool IsMember(std::string_view member) {
  const size_t equals = member.find('=');
  return equals != member.npos && IsKey(member.substr(0, equals)) && IsValue(member.substr(equals + 1));
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(std::string_view text) {
  if (text.size() < kParentBytes || text[2] != '-' || text[35] != '-' || text[52] != '-') return std::nullopt;
  std::array<uint8_t, 1> version{};
  std::array<uint8_t, 1> flags{};
  TraceParent parent;
  if (!ParseHex(text.substr(0), &version) || !ParseHex(text.substr(3), &parent.trace_id) ||
      !ParseHex(text.substr(36), &parent.span_id) || !ParseHex(text.substr(53), &flags)) {
    return std::nullopt;
  }
  if (version[0] == kNoVersion || AllZero(parent.trace_id) || AllZero(parent.span_id)) return std::nullopt;
  if (text.size() > kParentBytes && (version[0] == 0 || text[kParentBytes] != '-')) return std::nullopt;
  parent.sampled = (flags[0] & kSampledFlag) != 0;
  return parent;
}

bool IsTraceState(std::string_view text) {
  if (text.size() > kMaxTraceStateBytes) return false;
  size_t num_members = 0;
  while (true) {
    const size_t comma = text.find(',');
    const std::string_view member = WithoutSpaces(text.substr(0, comma));
    if (!member.empty() && (!IsMember(member) || ++num_members > kMaxTraceStateMembers)) return false;
    if (comma == text.npos) return num_members > 0;
    text.remove_prefix(comma + 1);
  }
}

TraceContext ReadTraceContext(const std::vector<std::string_view>& parents,
                              const std::vector<std::string_view>& states) {
  TraceContext context;
  if (parents.size() != 1) return context;
  context.parent = ParseTraceParent(parents.front());
  if (!context.parent.has_value()) return context;
  std::string state = absl::StrJoin(states, ",", [](std::string* out, std::string_view text) { out->append(text); });
  if (IsTraceState(state)) context.state = std::move(state);
  return context;
}

}  // namespace dunlin::server
