// SPDX-License-Identifier: Apache-2.0
// The tables of what a request may choose: attention backends, devices, precisions. A row has its enumerator, which is
// its index, and a name; command-line choices, config keys, wire enumerators, metric labels and messages are derived
// from the names. Functions over any such table; plain data, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::kernels {

// Whether every row stands at its enumerator and has a name of its own, in lower case.
template <typename Row, size_t kRows, typename Enum>
constexpr bool IsChoiceTable(const Row (&table)[kRows], Enum Row::*enumerator) {
  for (size_t i = 0; i < kRows; ++i) {
    if (static_cast<size_t>(table[i].*enumerator) != i || table[i].name == nullptr) return false;
    const std::string_view name = table[i].name;
    if (name.empty()) return false;
    for (const char c : name) {
      if ((c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_') return false;
    }
    for (size_t j = 0; j < i; ++j) {
      if (name == table[j].name) return false;
    }
  }
  return true;
}

// The enumerators in the table's order.
template <typename Row, size_t kRows, typename Enum>
constexpr std::array<Enum, kRows> EnumeratorsOf(const Row (&table)[kRows], Enum Row::*enumerator) {
  std::array<Enum, kRows> enumerators{};
  for (size_t i = 0; i < kRows; ++i) enumerators[i] = table[i].*enumerator;
  return enumerators;
}

// The enumerators by ascending auto_rank. Does not compile where the ranks are not 0, 1, 2, ...
template <typename Row, size_t kRows, typename Enum>
constexpr std::array<Enum, kRows> OrderByAutoRank(const Row (&table)[kRows], Enum Row::*enumerator) {
  std::array<Enum, kRows> order{};
  std::array<bool, kRows> taken{};
  for (const Row& row : table) {
    if (taken.at(row.auto_rank)) throw "two rows have the same auto_rank";
    taken[row.auto_rank] = true;
    order[row.auto_rank] = row.*enumerator;
  }
  return order;
}

// Null when no row has this name.
template <typename Row, size_t kRows>
constexpr const Row* FindByName(const Row (&table)[kRows], std::string_view name) {
  for (const Row& row : table) {
    if (name == row.name) return &row;
  }
  return nullptr;
}

template <typename Row, size_t kRows>
std::vector<std::string> NamesOf(const Row (&table)[kRows]) {
  std::vector<std::string> names;
  for (const Row& row : table) names.emplace_back(row.name);
  return names;
}

// "fp32, bf16, fp16, fp8"
template <typename Row, size_t kRows>
std::string JoinNames(const Row (&table)[kRows], std::string_view separator) {
  std::string text;
  for (const Row& row : table) {
    if (!text.empty()) text += separator;
    text += row.name;
  }
  return text;
}

// "a", "a and b", "a, b and c"
inline std::string ListInWords(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

}  // namespace dunlin::kernels
