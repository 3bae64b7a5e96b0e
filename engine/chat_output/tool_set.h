// SPDX-License-Identifier: Apache-2.0
// The functions that a chat's model may call, read from the chat's list of tools. Immutable after Parse, any thread.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace dunlin::engine {

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
  // Whether only strings are values of a parameter; so of one that is not known.
  bool IsString(std::string_view tool, std::string_view parameter) const;

 private:
  std::vector<Tool> tools_;
};

// `text` as a JSON string, quotes included.
std::string JsonQuoted(std::string_view text);
// The same without the quotes.
void AppendJsonEscaped(std::string_view text, std::string* out);

}  // namespace dunlin::engine
