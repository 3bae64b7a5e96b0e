// SPDX-License-Identifier: Apache-2.0
// The functions that a chat's model may call, read from the chat's list of tools. Immutable after Parse, any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::text {

// What a parameter's text is, in forms that write no JSON, by the types that its schema allows.
enum class ParameterText : uint8_t {
  kText,    // a string: only those are allowed, or the schema says nothing of types
  kJson,    // JSON: strings are not allowed
  kEither,  // JSON of another type that is allowed, or else a string
};

class ToolSet {
 public:
  struct Tool {
    std::string name;
    nlohmann::ordered_json parameters;  // a JSON Schema; null: none is given
  };

  // Each entry is {"type": "function", "function": {"name", "parameters"}}, or what "function" holds. Entries without a
  // name are left out. tools_json: a JSON list, checked by the caller; "": none.
  static ToolSet Parse(std::string_view tools_json);

  const std::vector<Tool>& tools() const { return tools_; }
  bool empty() const { return tools_.empty(); }
  const Tool* Find(std::string_view name) const;  // null: there is none

  // How a parameter's text becomes JSON, for forms that write no JSON: as the first of the types of its schema that the
  // text is a value of, else as a string. `text` is trimmed for that. Numbers and words in Python's spelling count.
  std::string ToJson(std::string_view tool, std::string_view parameter, std::string_view text) const;
  // Of a parameter that is not known: kText.
  ParameterText TextOf(std::string_view tool, std::string_view parameter) const;

 private:
  std::vector<Tool> tools_;
};

ParameterText TextOf(const ToolSet::Tool& tool, std::string_view parameter);

// The schema that a reference like "#/$defs/place" names in `root`; null: none.
const nlohmann::ordered_json* ReferredSchema(const nlohmann::ordered_json& root, std::string_view reference);

// `text` itself where it is JSON without the white space around it, or a word in Python's spelling; else as a string.
std::string JsonOrQuoted(std::string_view text);

// `text` as a JSON string, quotes included.
std::string JsonQuoted(std::string_view text);
// The same without the quotes.
void AppendJsonEscaped(std::string_view text, std::string* out);

}  // namespace dunlin::text
