// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/parameters.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/string_view.h"
#include "text/chat_output/call_grammar.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

// Those of the specifications that say something about values, as text/rust/src/grammar/schema.rs has them. But
// format: a text without quotes is not held to one, and a format need not be enforced (Validation, 7.2.1).
constexpr std::array<std::string_view, 40> kConstraints = {"$dynamicRef",
                                                           "$recursiveRef",
                                                           "$ref",
                                                           "additionalProperties",
                                                           "allOf",
                                                           "anyOf",
                                                           "const",
                                                           "contains",
                                                           "dependencies",
                                                           "dependentRequired",
                                                           "dependentSchemas",
                                                           "disallow",
                                                           "divisibleBy",
                                                           "enum",
                                                           "exclusiveMaximum",
                                                           "exclusiveMinimum",
                                                           "extends",
                                                           "if",
                                                           "items",
                                                           "maxItems",
                                                           "maxLength",
                                                           "maxProperties",
                                                           "maximum",
                                                           "minItems",
                                                           "minLength",
                                                           "minProperties",
                                                           "minimum",
                                                           "multipleOf",
                                                           "not",
                                                           "oneOf",
                                                           "pattern",
                                                           "patternProperties",
                                                           "prefixItems",
                                                           "properties",
                                                           "propertyNames",
                                                           "required",
                                                           "type",
                                                           "unevaluatedItems",
                                                           "unevaluatedProperties",
                                                           "uniqueItems"};
constexpr std::array<std::string_view, 4> kOfObjects = {"type", "properties", "required", "additionalProperties"};
// Their values are no schemas.
constexpr std::array<std::string_view, 4> kLiterals = {"const", "enum", "default", "examples"};

template <size_t kSize>
bool Contains(const std::array<std::string_view, kSize>& list, std::string_view text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

// Makes references to the root of a schema name its place inside another one.
void MoveReferences(std::string_view place, Json* root) {
  std::vector<Json*> pending = {root};
  while (!pending.empty()) {
    Json* const schema = pending.back();
    pending.pop_back();
    if (schema->is_array()) {
      for (Json& item : *schema) pending.push_back(&item);
    }
    if (!schema->is_object()) continue;
    for (auto& [key, value] : schema->items()) {
      if (Contains(kLiterals, key)) continue;
      if (key == "$ref" && value.is_string() && absl::StartsWith(value.get_ref<const std::string&>(), "#")) {
        value = absl::StrCat(engine::AbslView(place), value.get_ref<const std::string&>().substr(1));
      }
      pending.push_back(&value);
    }
  }
}

// A name as a step of a reference.
std::string ReferenceStep(std::string_view name) {
  std::string step;
  for (const char c : name) {
    if (c == '~') {
      step += "~0";
    } else if (c == '/') {
      step += "~1";
    } else if (std::isalnum(static_cast<unsigned char>(c)) != 0) {
      step.push_back(c);
    } else {
      absl::StrAppendFormat(&step, "%%%02X", static_cast<unsigned>(static_cast<unsigned char>(c)));
    }
  }
  return step;
}

std::string Quoted(std::string_view name) {
  return JsonQuoted(name.substr(0, 64));
}

void RefuseOthers(const ToolSet::Tool& tool, const std::set<std::string>& required, const Json& properties,
                  GrammarParts* parts) {
  for (const auto& [keyword, value] : tool.parameters.items()) {
    if (Contains(kOfObjects, keyword) || IsAnnotation(keyword)) continue;
    parts->Refuse(tool.name, absl::StrCat("has ", JsonQuoted(keyword),
                                          " beside its properties, which is not supported with this form of calls"));
  }
  for (const std::string& name : required) {
    if (properties.contains(name)) continue;
    parts->Refuse(tool.name, absl::StrCat("requires ", Quoted(name), ", which is not one of its properties"));
  }
}

// Whether a schema says no more than the types of a value.
bool SaysOwnTypesOnly(const Json& schema) {
  if (!schema.is_object()) return schema == true;
  return std::all_of(schema.items().begin(), schema.items().end(),
                     [](const auto& row) { return row.key() == "type" || IsAnnotation(row.key()); });
}

}  // namespace

bool IsAnnotation(std::string_view keyword) {
  return !Contains(kConstraints, keyword);
}

bool TakesObject(const ToolSet::Tool& tool) {
  if (!tool.parameters.is_object()) return tool.parameters.is_null();
  const auto type = tool.parameters.find("type");
  if (type == tool.parameters.end() || *type == "object") return true;
  return type->is_array() && std::find(type->begin(), type->end(), Json("object")) != type->end();
}

std::vector<Parameter> ParametersOf(const ToolSet::Tool& tool, bool (*is_name)(std::string_view name),
                                    GrammarParts* parts) {
  if (!TakesObject(tool)) parts->Refuse(tool.name, kNoObject);
  if (!tool.parameters.is_object()) return {};
  const auto listed = tool.parameters.find("properties");
  const Json properties = listed != tool.parameters.end() && listed->is_object() ? *listed : Json::object();
  std::set<std::string> names;
  if (const auto list = tool.parameters.find("required"); list != tool.parameters.end() && list->is_array()) {
    for (const Json& name : *list) {
      if (name.is_string()) names.insert(name.get<std::string>());
    }
  }
  RefuseOthers(tool, names, properties, parts);
  std::vector<Parameter> required;
  std::vector<Parameter> optional;
  for (const auto& [name, schema] : properties.items()) {
    if (!is_name(name)) {
      parts->Refuse(tool.name, absl::StrCat("has a parameter named ", Quoted(name),
                                            ", a name that this form of calls cannot write"));
    }
    const bool is_required = names.count(name) > 0;
    (is_required ? required : optional).push_back({name, schema, is_required});
  }
  std::move(optional.begin(), optional.end(), std::back_inserter(required));
  return required;
}

std::string StandaloneSchema(const ToolSet::Tool& tool, const Parameter& parameter) {
  std::string alone = parameter.schema.dump();
  if (!absl::StrContains(alone, "\"$ref\"")) return alone;
  constexpr char kPlace[] = "#/$defs/arguments";
  Json arguments = tool.parameters;
  MoveReferences(kPlace, &arguments);
  Json schema = Json::object();
  schema["$ref"] = absl::StrCat(kPlace, "/properties/", ReferenceStep(parameter.name));
  schema["$defs"]["arguments"] = std::move(arguments);
  return schema.dump();
}

std::string AddParameter(const ToolSet::Tool& tool, const Parameter& parameter, GrammarParts* parts) {
  return parts->Add(parts->full() ? "" : StandaloneSchema(tool, parameter), tool.name);
}

bool SaysTypesOnly(const Json& schema) {
  if (!schema.is_object()) return schema == true;
  for (const auto& [keyword, value] : schema.items()) {
    if (keyword == "type" || IsAnnotation(keyword)) continue;
    if (keyword != "anyOf" || !value.is_array()) return false;
    if (!std::all_of(value.begin(), value.end(), &SaysOwnTypesOnly)) return false;
  }
  return true;
}

std::optional<std::vector<std::string>> TextChoices(const Json& schema, std::string_view end) {
  std::vector<std::string> texts;
  for (const auto& [keyword, value] : schema.items()) {
    if (IsAnnotation(keyword) || (keyword == "type" && value == "string")) continue;
    const Json choices = keyword == "const" ? Json::array({value}) : value;
    if ((keyword != "const" && keyword != "enum") || !choices.is_array() || !texts.empty()) return std::nullopt;
    for (const Json& choice : choices) {
      if (!choice.is_string()) return std::nullopt;
      texts.push_back(choice.get<std::string>());
    }
  }
  const bool writable = std::all_of(texts.begin(), texts.end(),
                                    [end](const std::string& text) { return text.find(end) == std::string::npos; });
  return writable && !texts.empty() ? std::optional(texts) : std::nullopt;
}

void RefuseText(const ToolSet::Tool& tool, std::string_view parameter, GrammarParts* parts) {
  parts->Refuse(tool.name, absl::StrCat("has the parameter ", Quoted(parameter),
                                        ", a text with further rules, which this form of calls cannot enforce"));
}

}  // namespace dunlin::text
