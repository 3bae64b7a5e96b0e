// SPDX-License-Identifier: Apache-2.0
// The grammar of Gemma 4's calls (call_grammar.h, gemma_calls.h). Its values are no JSON, so that the schemas of texts,
// lists and objects become rules here; numbers and words stay JSON Schemas.
#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/gemma_calls.h"
#include "text/chat_output/parameters.h"
#include "text/chat_output/tool_formats.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;
using Keywords = std::span<const std::string_view>;

constexpr int kMaxGemmaSchemaDepth = 32;

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

// As the model writes it.
// NOLINTNEXTLINE(misc-no-recursion): literals of a parsed document
std::string GemmaText(const Json& value) {
  if (value.is_string()) {
    return absl::StrCat(engine::AbslView(kGemmaQuote), value.get_ref<const std::string&>(),
                        engine::AbslView(kGemmaQuote));
  }
  if (!value.is_structured()) return value.dump();
  std::vector<std::string> members;
  for (const auto& [key, member] : value.items()) {
    members.push_back(value.is_object() ? absl::StrCat(key, ":", GemmaText(member)) : GemmaText(member));
  }
  const std::string inner = absl::StrJoin(members, ",");
  return value.is_object() ? absl::StrCat("{", inner, "}") : absl::StrCat("[", inner, "]");
}

// Whether a reader would read it as it is.
// NOLINTNEXTLINE(misc-no-recursion): as above
bool IsWritable(const Json& value) {
  if (value.is_string()) {
    return value.get_ref<const std::string&>().find(kGemmaQuote) == std::string::npos;
  }
  if (!value.is_structured()) return true;
  return std::all_of(value.items().begin(), value.items().end(), [&value](const auto& member) {
    return (value.is_array() || IsGemmaKey(member.key())) && IsWritable(member.value());
  });
}

class GemmaGrammar {
 public:
  GemmaGrammar(const CallGrammar& request, GrammarParts* parts) : request_(request), parts_(parts) {}

  std::string Write() {
    const std::string one = absl::StrCat(Terms("<|tool_call>"), " call ", Terms("<tool_call|>"));
    std::string rules = absl::StrCat("calls: ", one, request_.several ? absl::StrCat(" (", one, ")*") : "", "\n",
                                     AnyCallRule(request_));
    for (size_t i = 0; i < request_.tools.size(); ++i) {
      tool_ = request_.tools[i];
      references_.clear();
      const std::string object = std::to_string(i);
      AddMembers(object, ParametersOf(*tool_, IsGemmaKey, parts_), 0);
      absl::StrAppend(&rules, "call_", object, ": ", GrammarString(absl::StrCat("call:", tool_->name, "{")), " first_",
                      object, "_0 \"}\"\n");
    }
    return absl::StrCat(rules, rules_, GenericRules());
  }

 private:
  std::string Terms(std::string_view text) const {
    return MarkupTerms(text, FindToolFormat("gemma4")->tokens, request_.tokenizer);
  }

  // Values of which nothing is said.
  std::string GenericRules() {
    const std::string word = parts_->Add(R"({"type": ["number", "boolean", "null"]})", tool_->name);
    return absl::StrCat(
        "any_value: text_value | any_word | any_list | any_object\n", "any_word: ", word, "\n",
        "any_list: \"[\" (any_value (\",\" any_value)*)? \"]\"\n",
        "any_object: \"{\" (any_key any_value (\",\" any_key any_value)*)? \"}\"\n",
        "any_key: /[A-Za-z_][A-Za-z0-9_]{0,63}:/\n", "text_value: ", Terms(kGemmaQuote), " text_rest\n",
        TextUntilRule("text_rest", kAnyText, kGemmaQuote, FindToolFormat("gemma4")->tokens, request_.tokenizer));
  }

  std::string Refuse(std::string_view what) {
    parts_->Refuse(tool_->name, absl::StrCat("has ", engine::AbslView(what),
                                             " in its parameters, which this form of calls cannot enforce"));
    return "any_value";
  }

  // The rules of the members of an object, as SeparatedRules.
  // NOLINTNEXTLINE(misc-no-recursion): kMaxGemmaSchemaDepth
  void AddMembers(const std::string& object, const std::vector<Parameter>& members, int depth) {
    for (size_t at = 0; at < members.size(); ++at) {
      const std::string value = Value(members[at].schema, depth + 1);
      absl::StrAppend(&rules_, "arg_", object, "_", at, ": ", GrammarString(members[at].name + ":"), " ", value, "\n");
    }
    absl::StrAppend(&rules_, SeparatedRules(object, ",", members));
  }

  // A term for the values of a schema, as the following.
  // NOLINTNEXTLINE(misc-no-recursion): kMaxGemmaSchemaDepth
  std::string Value(const Json& schema, int depth) {
    if (schema == true) return "any_value";
    if (!schema.is_object()) return Refuse("a schema that is false");
    if (depth > kMaxGemmaSchemaDepth) return Refuse("schemas in schemas, too deep,");
    std::vector<std::string> others;
    for (const auto& [keyword, value] : schema.items()) {
      if (!IsAnnotation(keyword) && keyword != "type") others.push_back(keyword);
    }
    if (others.empty() && !schema.contains("type")) return "any_value";
    const bool alone = others.size() == 1;
    if (alone && others[0] == "$ref") return Reference(schema["$ref"], depth);
    if (alone && others[0] == "anyOf" && schema["anyOf"].is_array()) return AnyOf(schema["anyOf"], depth);
    if (alone && others[0] == "const") return Literals(Json::array({schema["const"]}), NamedTypes(schema));
    if (alone && others[0] == "enum" && schema["enum"].is_array()) return Literals(schema["enum"], NamedTypes(schema));
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
  std::string OfType(const std::string& type, const Json& schema, int depth) {
    if (type == "string") {
      for (const std::string_view keyword : kTextKeywords) {
        if (schema.contains(std::string(keyword))) return Refuse(JsonQuoted(keyword));
      }
      return "text_value";
    }
    if (type == "array") return List(schema, depth);
    if (type == "object") return Object(schema, depth);
    if (!IsOneOf(type, kPlainTypes)) return Refuse("the type " + JsonQuoted(type));
    Json own = {{"type", type}};
    for (const std::string_view keyword : kNumberKeywords) {
      const auto value = schema.find(std::string(keyword));
      if (value != schema.end()) own[std::string(keyword)] = *value;
    }
    return parts_->Add(own.dump(), tool_->name);
  }

  // NOLINTNEXTLINE(misc-no-recursion): as above
  std::string List(const Json& schema, int depth) {
    const auto bound = [&schema](const char* keyword) -> std::optional<uint32_t> {
      const auto value = schema.find(keyword);
      if (value == schema.end() || !value->is_number_unsigned()) return std::nullopt;
      return static_cast<uint32_t>(std::min<uint64_t>(value->get<uint64_t>(), UINT32_MAX));
    };
    const uint32_t least = bound("minItems").value_or(0);
    const std::optional<uint32_t> most = bound("maxItems");
    if (most.has_value() && *most < least) return Refuse("\"maxItems\" below \"minItems\"");
    if (most == 0U) return R"("[]")";
    const std::string item = Value(schema.value("items", Json(true)), depth + 1);
    const std::string further = absl::StrCat(R"((",")", " ", item, "){", least < 2 ? 0 : least - 1, ",",
                                             most.has_value() ? absl::StrCat(*most - 1) : "", "}");
    const std::string items = absl::StrCat(item, " ", further);
    return absl::StrCat(R"("[" )", least == 0 ? absl::StrCat("(", items, ")?") : items, R"( "]")");
  }

  // NOLINTNEXTLINE(misc-no-recursion): as above
  std::string Object(const Json& schema, int depth) {
    const Json rest = schema.value("additionalProperties", Json(true));
    ToolSet::Tool object = {tool_->name, Json::object()};
    for (const std::string_view keyword : kObjectKeywords) {
      const auto value = schema.find(std::string(keyword));
      if (value != schema.end()) object.parameters[std::string(keyword)] = *value;
    }
    const std::vector<Parameter> members = ParametersOf(object, IsGemmaKey, parts_);
    if (members.empty() && rest == true) return "any_object";
    if (members.empty() && rest.is_object()) {
      const std::string member = "any_key " + Value(rest, depth + 1);
      return absl::StrCat(R"("{" ()", member, R"( (",")", " ", member, R"()*)? "}")");
    }
    const std::string name = absl::StrCat("o", num_objects_++);
    AddMembers(name, members, depth);
    return absl::StrCat(R"("{" )", "first_", name, "_0 \"}\"");
  }

  // NOLINTNEXTLINE(misc-no-recursion): as above
  std::string AnyOf(const Json& options, int depth) {
    std::vector<std::string> ways;
    for (const Json& option : options) ways.push_back(Value(option, depth + 1));
    if (ways.empty()) return Refuse("an empty \"anyOf\"");
    return absl::StrCat("(", absl::StrJoin(ways, " | "), ")");
  }

  std::string Literals(const Json& values, const std::vector<std::string>& types) {
    std::vector<std::string> ways;
    for (const Json& value : values) {
      if (IsOfType(value, types) && IsWritable(value)) ways.push_back(Terms(GemmaText(value)));
    }
    if (ways.empty()) return Refuse("values that cannot be written");
    return absl::StrCat("(", absl::StrJoin(ways, " | "), ")");
  }

  // A rule of its own, which may refer to itself.
  // NOLINTNEXTLINE(misc-no-recursion): as above, and once for each reference
  std::string Reference(const Json& reference, int depth) {
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

  const CallGrammar& request_;
  GrammarParts* const parts_;
  const ToolSet::Tool* tool_ = nullptr;
  std::string rules_;
  std::map<std::string, std::string> references_;  // of tool_, their rules
  int num_references_ = 0;
  int num_objects_ = 0;
};

}  // namespace

std::string GemmaCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return GemmaGrammar(request, parts).Write();
}

}  // namespace dunlin::text
