// SPDX-License-Identifier: Apache-2.0
// What a function's schema says of one value among its arguments: for forms of calls that write no JSON, so that the
// schema decides what a text is. Options and references are followed 16 deep and through 1,000 schemas; what is beyond
// counts as not said.
// Plain values that point into a tool's schema. Thread rule: any thread.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace dunlin::text {

// What the text of a value is, by the types that its schema allows.
enum class ParameterText : uint8_t {
  kText,    // a string: only those are allowed, or the schema says nothing of types
  kJson,    // JSON: strings are not allowed
  kEither,  // JSON of another type that is allowed, or else a string
};

class ValueSchema {
 public:
  // Nothing is said of the value.
  ValueSchema() = default;
  // root: what the references in `schema` are in; null schema: as above. Both outlive this.
  ValueSchema(const nlohmann::ordered_json* root, const nlohmann::ordered_json* schema)
      : root_(root), schema_(schema) {}

  // Of a member of the objects, and of the items of the lists, that the schema allows.
  ValueSchema Member(std::string_view name) const;
  ValueSchema Items() const;

  ParameterText text() const;
  bool says_types() const;  // whether it allows some types alone
  // Whether a type of JSON Schema is one that it names.
  bool Names(std::string_view type) const;

  // The value that a text is: of the first of the allowed types that it is a value of, else a string. `text` is trimmed
  // for that. Numbers and words in Python's spelling count.
  std::string ToJson(std::string_view text) const;

 private:
  const nlohmann::ordered_json* root_ = nullptr;
  const nlohmann::ordered_json* schema_ = nullptr;
};

// The schema that a reference like "#/$defs/place" names in `root`; null: none.
const nlohmann::ordered_json* ReferredSchema(const nlohmann::ordered_json& root, std::string_view reference);

// `text` as a JSON string, quotes included.
std::string JsonQuoted(std::string_view text);
// The same without the quotes.
void AppendJsonEscaped(std::string_view text, std::string* out);

// `text` itself where it is JSON without the white space around it, or a word in Python's spelling; else as a string.
std::string JsonOrQuoted(std::string_view text);

}  // namespace dunlin::text
