// SPDX-License-Identifier: Apache-2.0
// The grammars of forms that write each argument by itself (call_grammar.h).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/chat_output/call_grammar.h"

namespace dunlin::engine {
namespace {

using Json = nlohmann::ordered_json;

struct Parameter {
  std::string name;
  Json schema;
  bool required = false;
};

// Of a tool, those that are required first. What the schemas refer to comes with each.
std::vector<Parameter> ParametersOf(const ToolSet::Tool& tool) {
  std::vector<Parameter> required;
  std::vector<Parameter> optional;
  if (!tool.parameters.is_object()) return {};
  const Json properties = tool.parameters.value("properties", Json::object());
  const Json names = tool.parameters.value("required", Json::array());
  if (!properties.is_object()) return {};
  for (const auto& [name, schema] : properties.items()) {
    Parameter parameter = {name, schema.is_object() ? schema : Json::object(), false};
    for (const char* shared : {"$defs", "definitions"}) {
      if (tool.parameters.contains(shared)) parameter.schema[shared] = tool.parameters[shared];
    }
    for (const Json& one : names) parameter.required = parameter.required || one == name;
    (parameter.required ? required : optional).push_back(parameter);
  }
  required.insert(required.end(), optional.begin(), optional.end());
  return required;
}

std::string ToolRule(const char* rule, size_t tool) {
  return absl::StrCat(rule, "_", tool);
}

// "call: call_0 | call_1"
std::string AnyTool(const CallGrammar& request) {
  std::vector<std::string> names;
  for (size_t i = 0; i < request.tools.size(); ++i) names.push_back(ToolRule("call", i));
  return absl::StrCat("call: ", absl::StrJoin(names, " | "), "\n");
}

// Arguments between commas: all that are required, then any of the others in their order.
std::string CommaSeparated(const std::vector<std::string>& rules, size_t num_required) {
  if (rules.empty()) return "";
  const auto tail = [&rules](size_t from) {
    std::string text;
    for (size_t i = from; i < rules.size(); ++i) absl::StrAppend(&text, " (\", \" ", rules[i], ")?");
    return text;
  };
  if (num_required > 0) {
    const std::vector<std::string> required(rules.begin(), rules.begin() + static_cast<std::ptrdiff_t>(num_required));
    return absl::StrJoin(required, " \", \" ") + tail(num_required);
  }
  std::vector<std::string> starts;
  for (size_t i = 0; i < rules.size(); ++i) starts.push_back(rules[i] + tail(i + 1));
  return absl::StrCat("(", absl::StrJoin(starts, " | "), ")?");
}

// A text up to the end of the parameter, or one of the texts that the schema names.
std::string StringValue(const Json& schema) {
  const auto choices = schema.find("enum");
  if (choices == schema.end() || !choices->is_array() || choices->empty()) return "text_value";
  std::vector<std::string> texts;
  for (const Json& choice : *choices) {
    if (choice.is_string()) texts.push_back(JsonQuoted(choice.get<std::string>() + "\n</parameter>"));
  }
  return texts.empty() ? "text_value" : absl::StrCat("(", absl::StrJoin(texts, " | "), ")");
}

}  // namespace

// JSON's literals are Python's, but for true, false and null, which the parser takes too.
std::string PythonicCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  std::string rules = AnyTool(request);
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const std::vector<Parameter> parameters = ParametersOf(*request.tools[i]);
    std::vector<std::string> names;
    size_t num_required = 0;
    for (const Parameter& parameter : parameters) {
      names.push_back(absl::StrCat("arg_", i, "_", names.size()));
      num_required += parameter.required ? 1U : 0U;
      absl::StrAppend(&rules, names.back(), ": ", JsonQuoted(parameter.name + "="), " ",
                      AddSchema(parameter.schema, parts), "\n");
    }
    absl::StrAppend(&rules, ToolRule("call", i), ": ", JsonQuoted(request.tools[i]->name + "("), " ",
                    CommaSeparated(names, num_required), " \")\"\n");
  }
  const std::string further = request.several ? R"( (", " call)*)" : "";
  return absl::StrCat("calls: \"[\" call", further, " \"]\"\n", rules);
}

std::string XmlCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  std::string rules = AnyTool(request);
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const ToolSet::Tool& tool = *request.tools[i];
    std::string body = JsonQuoted(absl::StrCat("\n<function=", tool.name, ">\n"));
    for (const Parameter& parameter : ParametersOf(tool)) {
      const bool text = parameter.schema.value("type", Json()) == "string";
      const std::string value =
          text ? StringValue(parameter.schema)
               : absl::StrCat(AddSchema(parameter.schema, parts), " ", JsonQuoted("\n</parameter>"));
      const std::string one =
          absl::StrCat(JsonQuoted(absl::StrCat("<parameter=", parameter.name, ">\n")), " ", value, R"( "\n")");
      absl::StrAppend(&body, " (", one, ")", parameter.required ? "" : "?");
    }
    absl::StrAppend(&rules, ToolRule("call", i), ": ", body, " ", JsonQuoted("</function>\n"), "\n");
  }
  const std::string one = absl::StrCat(MarkerTerm("<tool_call>", request.tokenizer), " call ",
                                       MarkerTerm("</tool_call>", request.tokenizer));
  const std::string further = request.several ? absl::StrCat(" (\"\\n\" ", one, ")*") : "";
  return absl::StrCat("calls: ", one, further, "\n", rules, "text_value[suffix=\"\\n</parameter>\"]: /(?s:.*)/\n");
}

}  // namespace dunlin::engine
