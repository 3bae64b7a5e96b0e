// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/nested_grammar.h"

#include <algorithm>
#include <span>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "text/chat_output/tool_formats.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;
using Keywords = std::span<const std::string_view>;

constexpr int kMaxNestedSchemaDepth = 32;

// What the values of each type obey.
constexpr std::string_view kNumberKeywords[] = {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum",
                                                "multipleOf"};
constexpr std::string_view kTextKeywords[] = {"pattern", "minLength", "maxLength"};
constexpr std::string_view kListKeywords[] = {"items", "minItems", "maxItems"};
constexpr std::string_view kObjectKeywords[] = {"properties", "required", "additionalProperties"};
constexpr std::string_view kPlainTypes[] = {"integer", "number", "boolean", "null"};  // written as in JSON

bool IsOneOf(std::string_view text, Keywords keywords) {
  return std::find(keywords.begin(), keywords.end(), text) != keywords.end();
}

const char* TypeOfLiteral(const Json& value) {
  if (value.is_null()) return "null";
  if (value.is_boolean()) return "boolean";
  if (value.is_string()) return "string";
  if (value.is_array()) return "array";
  if (value.is_object()) return "object";
  return value.is_number_float() ? "number" : "integer";
}

bool IsOfType(const Json& value, const std::vector<std::string>& types) {
  const std::string type = TypeOfLiteral(value);
  const auto has = [&types](const char* name) { return std::find(types.begin(), types.end(), name) != types.end(); };
  return types.empty() || has(type.c_str()) || (type == "integer" && has("number"));
}

// The types that a schema names, or those whose keywords it has; empty: it says nothing of types.
std::vector<std::string> NamedTypes(const Json& schema) {
  std::vector<std::string> types;
  const auto named = schema.find("type");
  if (named != schema.end()) {
    for (const Json& type : named->is_array() ? *named : Json::array({*named})) {
      if (type.is_string()) types.push_back(type.get<std::string>());
    }
    return types;
  }
  const auto has = [&schema](Keywords keywords) {
    return std::any_of(keywords.begin(), keywords.end(),
                       [&schema](std::string_view keyword) { return schema.contains(std::string(keyword)); });
  };
  if (has(kObjectKeywords)) return {"object"};
  return has(kListKeywords) ? std::vector<std::string>{"array"} : types;
}

}  // namespace

std::string NestedGrammar::ArgumentsOf(size_t i) {
  tool_ = request_.tools[i];
  references_.clear();
  const std::string object = std::to_string(i);
  AddMembers(object, ParametersOf(*tool_, is_name_, parts_), 0);
  return absl::StrCat("first_", object, "_0");
}

std::string NestedGrammar::Terms(std::string_view text) const {
  return MarkupTerms(text, FindToolFormat(form_)->tokens, request_.tokenizer);
}

std::string NestedGrammar::Refuse(std::string_view what) {
  parts_->Refuse(tool_->name, absl::StrCat("has ", engine::AbslView(what),
                                           " in its parameters, which this form of calls cannot enforce"));
  return "any_value";
}

// The rules of the members of an object, as SeparatedRules.
// NOLINTNEXTLINE(misc-no-recursion): kMaxNestedSchemaDepth
void NestedGrammar::AddMembers(const std::string& object, const std::vector<Parameter>& members, int depth) {
  for (size_t at = 0; at < members.size(); ++at) {
    const std::string value = Value(members[at].schema, depth + 1);
    absl::StrAppend(&rules_, "arg_", object, "_", at, ": ", Member(members[at].name, value), "\n");
  }
  absl::StrAppend(&rules_, SeparatedRules(object, separator(), members));
}

// NOLINTNEXTLINE(misc-no-recursion): kMaxNestedSchemaDepth
std::string NestedGrammar::Value(const Json& schema, int depth) {
  if (schema == true) return "any_value";
  if (!schema.is_object()) return Refuse("a schema that is false");
  if (depth > kMaxNestedSchemaDepth) return Refuse("schemas in schemas, too deep,");
  std::vector<std::string> others;
  for (const auto& [keyword, value] : schema.items()) {
    if (!IsAnnotation(keyword) && keyword != "type") others.push_back(keyword);
  }
  if (others.empty() && !schema.contains("type")) return "any_value";
  const bool alone = others.size() == 1;
  if (alone && others[0] == "$ref") return Reference(schema["$ref"], depth);
  if (alone && others[0] == "const") return Literals(Json::array({schema["const"]}), schema);
  if (alone && others[0] == "enum" && schema["enum"].is_array()) return Literals(schema["enum"], schema);
  if (const std::string what = Confusion(schema); !what.empty()) return Refuse(what);
  if (alone && others[0] == "anyOf" && schema["anyOf"].is_array()) return AnyOf(schema["anyOf"], depth);
  for (const std::string& keyword : others) {
    const bool known = IsOneOf(keyword, kNumberKeywords) || IsOneOf(keyword, kTextKeywords) ||
                       IsOneOf(keyword, kListKeywords) || IsOneOf(keyword, kObjectKeywords);
    if (!known) return Refuse(JsonQuoted(keyword));
  }
  std::vector<std::string> ways;
  for (const std::string& type : NamedTypes(schema)) ways.push_back(OfType(type, schema, depth));
  if (ways.empty()) return Refuse(absl::StrCat(JsonQuoted(others.empty() ? "type" : others[0]), " without a type"));
  return absl::StrCat("(", absl::StrJoin(ways, " | "), ")");
}

// NOLINTNEXTLINE(misc-no-recursion): as above
std::string NestedGrammar::OfType(const std::string& type, const Json& schema, int depth) {
  if (type == "string") {
    for (const std::string_view keyword : kTextKeywords) {
      if (schema.contains(std::string(keyword))) return Refuse(JsonQuoted(keyword));
    }
    return "text_value";
  }
  if (type == "array") return ListOf(schema, depth);
  if (type == "object") return ObjectOf(schema, depth);
  if (!IsOneOf(type, kPlainTypes)) return Refuse("the type " + JsonQuoted(type));
  Json own = {{"type", type}};
  for (const std::string_view keyword : kNumberKeywords) {
    const auto value = schema.find(std::string(keyword));
    if (value != schema.end()) own[std::string(keyword)] = *value;
  }
  return Word(parts_->Add(own.dump(), tool_->name));
}

// NOLINTNEXTLINE(misc-no-recursion): as above
std::string NestedGrammar::ListOf(const Json& schema, int depth) {
  const auto bound = [&schema](const char* keyword) -> std::optional<uint32_t> {
    const auto value = schema.find(keyword);
    if (value == schema.end() || !value->is_number_unsigned()) return std::nullopt;
    return static_cast<uint32_t>(std::min<uint64_t>(value->get<uint64_t>(), UINT32_MAX));
  };
  const uint32_t least = bound("minItems").value_or(0);
  const std::optional<uint32_t> most = bound("maxItems");
  if (most.has_value() && *most < least) return Refuse("\"maxItems\" below \"minItems\"");
  const std::string item = most == 0U ? "" : Value(schema.value("items", Json(true)), depth + 1);
  return List(item, least, most);
}

// NOLINTNEXTLINE(misc-no-recursion): as above
std::string NestedGrammar::ObjectOf(const Json& schema, int depth) {
  const Json rest = schema.value("additionalProperties", Json(true));
  ToolSet::Tool object = {tool_->name, Json::object()};
  for (const std::string_view keyword : kObjectKeywords) {
    const auto value = schema.find(std::string(keyword));
    if (value != schema.end()) object.parameters[std::string(keyword)] = *value;
  }
  const std::vector<Parameter> members = ParametersOf(object, is_name_, parts_);
  if (members.empty() && rest == true) return AnyObject();
  if (members.empty() && rest.is_object()) return Map(rest, depth + 1);
  const std::string name = absl::StrCat("o", num_objects_++);
  AddMembers(name, members, depth);
  return Object(absl::StrCat("first_", name, "_0"));
}

// NOLINTNEXTLINE(misc-no-recursion): as above
std::string NestedGrammar::AnyOf(const Json& options, int depth) {
  std::vector<std::string> ways;
  for (const Json& option : options) ways.push_back(Value(option, depth + 1));
  if (ways.empty()) return Refuse("an empty \"anyOf\"");
  return absl::StrCat("(", absl::StrJoin(ways, " | "), ")");
}

std::string NestedGrammar::Literals(const Json& values, const Json& schema) {
  const std::vector<std::string> types = NamedTypes(schema);
  std::vector<std::string> ways;
  for (const Json& value : values) {
    if (!IsOfType(value, types)) continue;
    if (std::optional<std::string> way = Literal(value, schema)) ways.push_back(*std::move(way));
  }
  if (ways.empty()) return Refuse("values that cannot be written");
  return absl::StrCat("(", absl::StrJoin(ways, " | "), ")");
}

// A rule of its own, which may refer to itself.
// NOLINTNEXTLINE(misc-no-recursion): as above, and once for each reference
std::string NestedGrammar::Reference(const Json& reference, int depth) {
  const std::string to = reference.is_string() ? reference.get<std::string>() : "";
  if (const auto known = references_.find(to); known != references_.end()) return known->second;
  const Json* target = ReferredSchema(tool_->parameters, to);
  if (target == nullptr) return Refuse("a \"$ref\" to no schema");
  std::string name = absl::StrCat("value_", num_references_++);
  references_.emplace(to, name);
  const std::string value = Value(*target, depth + 1);
  if (value == name) return Refuse("a \"$ref\" to itself");
  absl::StrAppend(&rules_, name, ": ", value, "\n");
  return name;
}

}  // namespace dunlin::text
