// SPDX-License-Identifier: Apache-2.0
// The functions that a chat's model may call, read from the chat's list of tools. Immutable after Parse, any thread.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_output/value_schema.h"

namespace dunlin::text {

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

// The schema of a function's arguments.
ValueSchema Arguments(const ToolSet::Tool& tool);
ParameterText TextOf(const ToolSet::Tool& tool, std::string_view parameter);

}  // namespace dunlin::text
