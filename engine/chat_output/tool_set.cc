// SPDX-License-Identifier: Apache-2.0
#include "engine/chat_output/tool_set.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "engine/base/string_view.h"

namespace dunlin::engine {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxSchemaDepth = 16;  // of anyOf in anyOf

// The schema of a parameter, or null.
const Json* SchemaOf(const ToolSet::Tool* tool, std::string_view parameter) {
  if (tool == nullptr || !tool->parameters.is_object()) return nullptr;
  const auto properties = tool->parameters.find("properties");
  if (properties == tool->parameters.end() || !properties->is_object()) return nullptr;
  const auto schema = properties->find(std::string(parameter));
  return schema == properties->end() || !schema->is_object() ? nullptr : &*schema;
}

// The names of the types that a schema allows; empty: it does not say.
void AddTypes(const Json& schema, int depth, std::vector<std::string>* types) {
  if (!schema.is_object() || depth > kMaxSchemaDepth) return;
  const auto type = schema.find("type");
  if (type != schema.end()) {
    if (type->is_string()) types->push_back(type->get<std::string>());
    if (type->is_array()) {
      for (const Json& one : *type) {
        if (one.is_string()) types->push_back(one.get<std::string>());
      }
    }
  }
  for (const char* list : {"anyOf", "oneOf", "allOf"}) {
    const auto options = schema.find(list);
    if (options == schema.end() || !options->is_array()) continue;
    for (const Json& option : *options) AddTypes(option, depth + 1, types);
  }
}

bool HasType(const std::vector<std::string>& types, std::string_view type) {
  return std::find(types.begin(), types.end(), type) != types.end();
}

bool Allows(const std::vector<std::string>& types, const Json& value) {
  switch (value.type()) {
    case Json::value_t::boolean:
      return HasType(types, "boolean");
    case Json::value_t::number_integer:
    case Json::value_t::number_unsigned:
      return HasType(types, "integer") || HasType(types, "number");
    case Json::value_t::number_float:
      return HasType(types, "number");
    case Json::value_t::object:
      return HasType(types, "object");
    case Json::value_t::array:
      return HasType(types, "array");
    case Json::value_t::null:
      return HasType(types, "null");
    default:
      return false;
  }
}

std::string_view InJson(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  return word == "None" ? "null" : word;
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

bool ToolSet::IsString(std::string_view tool, std::string_view parameter) const {
  const Json* schema = SchemaOf(Find(tool), parameter);
  if (schema == nullptr) return true;
  std::vector<std::string> types;
  AddTypes(*schema, 0, &types);
  return std::all_of(types.begin(), types.end(), [](const std::string& type) { return type == "string"; });
}

std::string ToolSet::ToJson(std::string_view tool, std::string_view parameter, std::string_view text) const {
  const Json* schema = SchemaOf(Find(tool), parameter);
  if (schema == nullptr) return JsonQuoted(text);
  std::vector<std::string> types;
  AddTypes(*schema, 0, &types);
  const std::string_view trimmed = StdView(absl::StripAsciiWhitespace(AbslView(text)));
  const std::string_view word = InJson(trimmed);
  const Json value = Json::parse(word, nullptr, /*allow_exceptions=*/false);
  return !value.is_discarded() && Allows(types, value) ? std::string(word) : JsonQuoted(text);
}

void AppendJsonEscaped(std::string_view text, std::string* out) {
  for (const char c : text) {
    switch (c) {
      case '"':
      case '\\':
        out->push_back('\\');
        out->push_back(c);
        break;
      case '\n':
        out->append("\\n");
        break;
      case '\t':
        out->append("\\t");
        break;
      case '\r':
        out->append("\\r");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          absl::StrAppendFormat(out, "\\u%04x", static_cast<unsigned>(c));
        } else {
          out->push_back(c);
        }
    }
  }
}

std::string JsonQuoted(std::string_view text) {
  std::string out = "\"";
  AppendJsonEscaped(text, &out);
  out.push_back('"');
  return out;
}

}  // namespace dunlin::engine
