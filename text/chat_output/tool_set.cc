// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/tool_set.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "engine/base/string_view.h"
#include "text/chat_output/json_scanner.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kMaxSchemaDepth = 16;  // of anyOf in anyOf
constexpr size_t kMaxTypes = 1000;   // that are collected

// The schema of a parameter, or null.
const Json* SchemaOf(const ToolSet::Tool* tool, std::string_view parameter) {
  if (tool == nullptr || !tool->parameters.is_object()) return nullptr;
  const auto properties = tool->parameters.find("properties");
  if (properties == tool->parameters.end() || !properties->is_object()) return nullptr;
  const auto schema = properties->find(std::string(parameter));
  return schema == properties->end() || !schema->is_object() ? nullptr : &*schema;
}

// The names of the types that a schema allows; empty: it does not say.
class Types {
 public:
  Types(const Json& root, const Json& schema) : root_(root) { Add(schema, 0); }

  bool empty() const { return names_.empty(); }
  bool Has(std::string_view type) const { return std::find(names_.begin(), names_.end(), type) != names_.end(); }
  bool HasOthersThanStrings() const {
    return std::any_of(names_.begin(), names_.end(), [](const std::string& name) { return name != "string"; });
  }

 private:
  // NOLINTNEXTLINE(misc-no-recursion): kMaxSchemaDepth
  void Add(const Json& schema, int depth) {
    if (!schema.is_object() || depth > kMaxSchemaDepth || names_.size() > kMaxTypes) return;
    if (const auto type = schema.find("type"); type != schema.end()) {
      AddNames(*type);
    } else if (const auto choices = schema.find("enum"); choices != schema.end() && choices->is_array()) {
      for (const Json& choice : *choices) names_.emplace_back(TypeOf(choice));
    } else if (const auto value = schema.find("const"); value != schema.end()) {
      names_.emplace_back(TypeOf(*value));
    }
    if (const auto ref = schema.find("$ref"); ref != schema.end() && ref->is_string()) {
      if (const Json* target = ReferredSchema(root_, ref->get_ref<const std::string&>())) Add(*target, depth + 1);
    }
    for (const char* list : {"anyOf", "oneOf", "allOf"}) {
      const auto options = schema.find(list);
      if (options == schema.end() || !options->is_array()) continue;
      for (const Json& option : *options) Add(option, depth + 1);
    }
  }
  void AddNames(const Json& type) {
    if (type.is_string()) names_.push_back(type.get<std::string>());
    if (!type.is_array()) return;
    for (const Json& one : type) {
      if (one.is_string()) names_.push_back(one.get<std::string>());
    }
  }
  static const char* TypeOf(const Json& value) {
    if (value.is_null()) return "null";
    if (value.is_boolean()) return "boolean";
    if (value.is_number_float()) return "number";
    if (value.is_number()) return "integer";
    if (value.is_string()) return "string";
    return value.is_object() ? "object" : "array";
  }

  const Json& root_;
  std::vector<std::string> names_;
};

// Whether a text, which is JSON, is a value of one of the types, and no string.
bool Allows(const Types& types, std::string_view json) {
  switch (json[0]) {
    case '{':
      return types.Has("object");
    case '[':
      return types.Has("array");
    case 't':
    case 'f':
      return types.Has("boolean");
    case 'n':
      return types.Has("null");
    case '"':
      return false;
    default:
      return types.Has("number") || (types.Has("integer") && json.find_first_of(".eE") == std::string_view::npos);
  }
}

std::string_view WordInJson(std::string_view word) {
  if (word == "True") return "true";
  if (word == "False") return "false";
  return word == "None" ? "null" : word;
}

}  // namespace

const Json* ReferredSchema(const Json& root, std::string_view reference) {
  if (reference.empty() || reference[0] != '#') return nullptr;
  const Json* found = &root;
  for (const absl::string_view step : absl::StrSplit(engine::AbslView(reference.substr(1)), '/')) {
    if (step.empty()) continue;  // before the first '/'
    if (!found->is_object()) return nullptr;
    const auto next = found->find(absl::StrReplaceAll(step, {{"~1", "/"}, {"~0", "~"}}));
    if (next == found->end()) return nullptr;
    found = &*next;
  }
  return found;
}

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

ParameterText TextOf(const ToolSet::Tool& tool, std::string_view parameter) {
  const Json* schema = SchemaOf(&tool, parameter);
  if (schema == nullptr) return ParameterText::kText;
  const Types types(tool.parameters, *schema);
  if (!types.HasOthersThanStrings()) return ParameterText::kText;
  return types.Has("string") ? ParameterText::kEither : ParameterText::kJson;
}

ParameterText ToolSet::TextOf(std::string_view tool, std::string_view parameter) const {
  const Tool* found = Find(tool);
  return found == nullptr ? ParameterText::kText : text::TextOf(*found, parameter);
}

std::string ToolSet::ToJson(std::string_view tool, std::string_view parameter, std::string_view text) const {
  const Tool* found = Find(tool);
  const Json* schema = SchemaOf(found, parameter);
  if (schema == nullptr) return JsonQuoted(text);
  const Types types(found->parameters, *schema);
  const std::string_view trimmed = engine::StdView(absl::StripAsciiWhitespace(engine::AbslView(text)));
  const std::string_view word = WordInJson(trimmed);
  return IsJson(word) && Allows(types, word) ? std::string(word) : JsonQuoted(text);
}

std::string JsonOrQuoted(std::string_view text) {
  const std::string_view word = WordInJson(engine::StdView(absl::StripAsciiWhitespace(engine::AbslView(text))));
  return IsJson(word) ? std::string(word) : JsonQuoted(text);
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

}  // namespace dunlin::text
