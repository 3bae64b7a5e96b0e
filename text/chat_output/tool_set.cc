// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/tool_set.h"

#include <algorithm>

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

ValueSchema SchemaOf(const ToolSet::Tool* tool, std::string_view parameter) {
  return tool == nullptr ? ValueSchema() : Arguments(*tool).Member(parameter);
}

}  // namespace

ToolSet ToolSet::Parse(std::string_view tools_json) {
  ToolSet set;
  const Json list = Json::parse(tools_json, nullptr, /*allow_exceptions=*/false);
  if (!list.is_array()) return set;
  for (const Json& entry : list) {
    if (!entry.is_object()) continue;
    const auto inner = entry.find("function");
    const Json& function = inner != entry.end() && inner->is_object() ? *inner : entry;
    const auto name = function.find("name");
    if (name == function.end() || !name->is_string()) continue;
    const auto parameters = function.find("parameters");
    set.tools_.push_back({name->get<std::string>(), parameters == function.end() ? Json() : *parameters});
  }
  return set;
}

const ToolSet::Tool* ToolSet::Find(std::string_view name) const {
  const auto found = std::find_if(tools_.begin(), tools_.end(), [name](const Tool& tool) { return tool.name == name; });
  return found == tools_.end() ? nullptr : &*found;
}

ValueSchema Arguments(const ToolSet::Tool& tool) {
  return {&tool.parameters, &tool.parameters};
}

ParameterText TextOf(const ToolSet::Tool& tool, std::string_view parameter) {
  return SchemaOf(&tool, parameter).text();
}

ParameterText ToolSet::TextOf(std::string_view tool, std::string_view parameter) const {
  return SchemaOf(Find(tool), parameter).text();
}

std::string ToolSet::ToJson(std::string_view tool, std::string_view parameter, std::string_view text) const {
  return SchemaOf(Find(tool), parameter).ToJson(text);
}

}  // namespace dunlin::text
