// SPDX-License-Identifier: Apache-2.0
// Text built at compile time from the names of a table's rows, so that a const table can point to it.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace dunlin::server {

// A text of more than kMaxBytes is a compile error.
struct StaticText {
  static constexpr size_t kMaxBytes = 63;
  std::array<char, kMaxBytes + 1> bytes{};  // ends with a 0 byte
  size_t size = 0;

  constexpr void Append(std::string_view text) {
    for (const char c : text) bytes.at(size++) = c;
    if (size > kMaxBytes) throw "kMaxBytes is too small";
  }
  constexpr const char* c_str() const { return bytes.data(); }
};

// "a|b|c", as ConfigKey::choices has it: the names of the rows, preceded by `first` if that is not empty.
template <typename Row, size_t kRows>
constexpr StaticText ChoicesOf(const Row (&table)[kRows], std::string_view first = {}) {
  StaticText text;
  text.Append(first);
  for (const Row& row : table) {
    if (text.size > 0) text.Append("|");
    text.Append(row.name);
  }
  return text;
}

}  // namespace dunlin::server
