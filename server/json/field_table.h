// SPDX-License-Identifier: Apache-2.0
// The fields of a request as tables: what is honoured and how, what is accepted without effect, what is refused. A
// field is a member of a JSON object (JsonValue), or what else an API has: a Value with is_null() and a RefuseField of
// its own namespace. Pure functions, any thread.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <span>
#include <string_view>

#include "server/json/json_value.h"

namespace dunlin::server {

enum class FieldUse : uint8_t {
  kHonoured,
  kIgnored,  // has no effect on the output here: accounting, hints, what the response does not promise
  kRefused,  // would change the output in a way that the server does not offer
};

// null is as good as absent, whatever the use.
template <class Target, class Value = JsonValue>
struct FieldRow {
  std::string_view name;
  FieldUse use;
  void (*read)(const Value& value, Target* target) = nullptr;  // of kHonoured; of kIgnored: checks it, may be null
  std::string_view reason = {};                                // of kRefused: completes "is not supported: "
  std::string_view neutral = {};  // of kRefused: the one value, in JSON, that changes nothing; "": there is none
};

template <class Target>
constexpr FieldRow<Target> Honoured(std::string_view name, void (*read)(const JsonValue& value, Target* target)) {
  return {name, FieldUse::kHonoured, read};
}
template <class Target>
constexpr FieldRow<Target> Ignored(std::string_view name,
                                   void (*check)(const JsonValue& value, Target* target) = nullptr) {
  return {name, FieldUse::kIgnored, check};
}
template <class Target>
constexpr FieldRow<Target> Refused(std::string_view name, std::string_view reason, std::string_view neutral = {}) {
  return {name, FieldUse::kRefused, nullptr, reason, neutral};
}

// The rows of two lists as one.
template <class Row, size_t kFirst, size_t kSecond>
constexpr std::array<Row, kFirst + kSecond> Joined(const std::array<Row, kFirst>& first, const Row (&second)[kSecond]) {
  std::array<Row, kFirst + kSecond> rows{};
  std::copy(first.begin(), first.end(), rows.begin());
  std::copy(std::begin(second), std::end(second), rows.begin() + kFirst);
  return rows;
}

template <class Target>
using FieldTable = std::span<const FieldRow<Target>>;

// Records the error of a refused field that has another value than the neutral one.
void RefuseField(const JsonValue& value, std::string_view reason, std::string_view neutral);

template <class Target, class Value>
void ReadField(const Value& value, const FieldRow<Target, Value>& row, Target* target) {
  if (value.is_null()) return;
  if (row.use == FieldUse::kRefused) return RefuseField(value, row.reason, row.neutral);
  if (row.read != nullptr) row.read(value, target);
}

// Reads the members of an object by the rows of the first table that has them, in the order of the object. A name that
// no table has is ignored or refused, as JsonValue::Ignore.
template <class Target>
void ReadFields(const JsonValue& object, std::span<const FieldTable<Target>> tables, Target* target) {
  if (!object.ExpectObject()) return;
  for (const auto& member : object.json().items()) {
    if (!object.ok()) return;
    const FieldRow<Target>* found = nullptr;
    for (const FieldTable<Target>& table : tables) {
      for (const FieldRow<Target>& row : table) {
        if (found == nullptr && row.name == member.key()) found = &row;
      }
    }
    const JsonValue value = object.Of(member.key(), member.value());
    if (found == nullptr) {
      value.Ignore();
    } else {
      ReadField(value, *found, target);
    }
  }
}

template <class Target>
void ReadFields(const JsonValue& object, FieldTable<Target> table, Target* target) {
  const FieldTable<Target> tables[] = {table};
  ReadFields(object, std::span<const FieldTable<Target>>(tables), target);
}

}  // namespace dunlin::server
