// SPDX-License-Identifier: Apache-2.0
// The grammars of forms that write each argument by itself (call_grammar.h).
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/parameters.h"
#include "text/chat_output/pythonic_calls.h"
#include "text/chat_output/xml_calls.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kParameterEnd = "</parameter>";

std::string ToolRule(const char* rule, size_t tool) {
  return absl::StrCat(rule, "_", tool);
}

// "call: call_0 | call_1"
std::string AnyTool(const CallGrammar& request) {
  std::vector<std::string> names;
  for (size_t i = 0; i < request.tools.size(); ++i) names.push_back(ToolRule("call", i));
  return absl::StrCat("call: ", absl::StrJoin(names, " | "), "\n");
}

// The rules first_I_N, the arguments from N on without a comma before them, and more_I_N, the same with one: all that
// are required, which come first, then any of the others in their order.
std::string CommaSeparated(size_t tool, const std::vector<Parameter>& parameters) {
  std::string rules;
  const auto rule = [tool](const char* name, size_t at) { return absl::StrCat(name, "_", tool, "_", at); };
  for (size_t at = 0; at < parameters.size(); ++at) {
    const std::string here = absl::StrCat(rule("arg", at), " ", rule("more", at + 1));
    const bool required = parameters[at].required;
    absl::StrAppend(&rules, rule("more", at), ": \", \" ", here, required ? "" : " | " + rule("more", at + 1), "\n");
    // Of a required argument, the ones behind it never come first.
    const bool may_be_first = at == 0 || !parameters[at - 1].required;
    if (!may_be_first) continue;
    absl::StrAppend(&rules, rule("first", at), ": ", here, required ? "" : " | " + rule("first", at + 1), "\n");
  }
  absl::StrAppend(&rules, rule("more", parameters.size()), ": \"\"\n");
  const bool may_be_none = parameters.empty() || !parameters.back().required;
  if (may_be_none) absl::StrAppend(&rules, rule("first", parameters.size()), ": \"\"\n");
  return rules;
}

std::string JsonValue(const ToolSet::Tool& tool, const Parameter& parameter, GrammarParts* parts) {
  return parts->Add(parts->full() ? "" : StandaloneSchema(tool, parameter), tool.name);
}

// Whether a schema says no more than the types of a value; options: itself, or as one of several.
bool SaysTypesOnly(const Json& schema, bool options) {
  if (!schema.is_object()) return schema == true;
  for (const auto& [keyword, value] : schema.items()) {
    if (keyword == "type" || IsAnnotation(keyword)) continue;
    if (!options || keyword != "anyOf" || !value.is_array()) return false;
    const bool all =
        std::all_of(value.begin(), value.end(), [](const Json& option) { return SaysTypesOnly(option, false); });
    if (!all) return false;
  }
  return true;
}

// The texts that a schema allows, where it is a list of texts; nullopt: it is not.
std::optional<std::vector<std::string>> TextChoices(const Json& schema) {
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
  const bool writable = std::all_of(texts.begin(), texts.end(), [](const std::string& text) {
    return text.find(kParameterEnd) == std::string::npos;
  });
  return writable && !texts.empty() ? std::optional(texts) : std::nullopt;
}

// A value with the tag that ends it. A text ends with the first such tag.
std::string XmlValue(const ToolSet::Tool& tool, const Parameter& parameter, GrammarParts* parts) {
  const std::string end = GrammarString(absl::StrCat("\n", std::string(kParameterEnd)));
  if (TextOf(tool, parameter.name) == ParameterText::kJson) {
    return absl::StrCat(JsonValue(tool, parameter, parts), " ", end);
  }
  if (SaysTypesOnly(parameter.schema, true)) return "text_value";
  if (const auto choices = TextChoices(parameter.schema)) {
    std::vector<std::string> texts;
    for (const std::string& choice : *choices) texts.push_back(GrammarString(choice + "\n</parameter>"));
    return absl::StrCat("(", absl::StrJoin(texts, " | "), ")");
  }
  parts->Refuse(tool.name, absl::StrCat("has the parameter ", JsonQuoted(parameter.name.substr(0, 64)),
                                        ", a text with further rules, which this form of calls cannot enforce"));
  return "text_value";
}

}  // namespace

// JSON's literals are Python's, but for true, false and null, which the parser takes too.
std::string PythonicCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  std::string rules = AnyTool(request);
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const ToolSet::Tool& tool = *request.tools[i];
    const std::vector<Parameter> parameters = ParametersOf(tool, IsPythonicName, parts);
    for (size_t at = 0; at < parameters.size(); ++at) {
      absl::StrAppend(&rules, "arg_", i, "_", at, ": ", GrammarString(parameters[at].name + "="), " ",
                      JsonValue(tool, parameters[at], parts), "\n");
    }
    absl::StrAppend(&rules, ToolRule("call", i), ": ", GrammarString(tool.name + "("), " first_", i, "_0 \")\"\n",
                    CommaSeparated(i, parameters));
  }
  const std::string further = request.several ? R"( (", " call)*)" : "";
  return absl::StrCat("calls: \"[\" call", further, " \"]\"\n", rules);
}

std::string XmlCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  std::string rules = AnyTool(request);
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const ToolSet::Tool& tool = *request.tools[i];
    std::string body = GrammarString(absl::StrCat("\n<function=", tool.name, ">\n"));
    for (const Parameter& parameter : ParametersOf(tool, IsXmlName, parts)) {
      const std::string one = absl::StrCat(GrammarString(absl::StrCat("<parameter=", parameter.name, ">\n")), " ",
                                           XmlValue(tool, parameter, parts), R"( "\n")");
      absl::StrAppend(&body, " (", one, ")", parameter.required ? "" : "?");
    }
    absl::StrAppend(&rules, ToolRule("call", i), ": ", body, " ", GrammarString("</function>\n"), "\n");
  }
  const std::string one = absl::StrCat(MarkerTerm("<tool_call>", request.tokenizer), " call ",
                                       MarkerTerm("</tool_call>", request.tokenizer));
  const std::string further = request.several ? absl::StrCat(" (\"\\n\" ", one, ")*") : "";
  return absl::StrCat("calls: ", one, further, "\n", rules, "text_value[suffix=", GrammarString(kParameterEnd),
                      "]: /(?s:.*)/\n");
}

}  // namespace dunlin::text
