// SPDX-License-Identifier: Apache-2.0
// Tools that a chat demands: tool_choice REQUIRED and NAMED make a grammar of them.
#include "absl/strings/str_cat.h"
#include "tests/integration/refusals/groups.h"
#include "tests/integration/refusals/requests.h"

namespace dunlin::integration {
namespace {

constexpr char kToolChoiceField[] = "chat.tool_choice";
constexpr char kToolsField[] = "chat.tools_json";
constexpr char kNames[] = "limit is names of 1 to 64 letters, digits, '_', '.' or '-'";

// A function with parameters of this schema.
std::string Tool(const std::string& name, const std::string& schema = R"({"type": "object"})") {
  return absl::StrCat(R"({"type": "function", "function": {"name": ")", name, R"(", "parameters": )", schema, "}}");
}

// A chat with these tools and this choice.
Sent Demand(const std::string& tools, const std::string& choice, const std::string& rest = "") {
  return Chat(absl::StrCat("chat { messages { role: 'user' content: 'x' } tools_json: '[", tools, "]' tool_choice { ",
                           choice, " } } ", rest));
}

Sent Require(const std::string& tools, const std::string& rest = "") {
  return Demand(tools, "mode: MODE_REQUIRED", rest);
}

Sent Name(const std::string& tools, const std::string& name) {
  return Demand(tools, absl::StrCat("mode: MODE_NAMED name: '", name, "'"));
}

std::string Tools(int count) {
  std::string tools = Tool("f");
  for (int i = 1; i < count; ++i) absl::StrAppend(&tools, ",", Tool(absl::StrCat("f", i)));
  return tools;
}

}  // namespace

Group ToolRows() {
  return {"Tools",
          kAttackConfig,
          {
              {"a mode outside", Demand(Tool("f"), "mode: 5"), Invalid(kToolChoiceField, "is 5; limit is [0, 4]")},
              {"a negative mode", Demand(Tool("f"), "mode: -1"), Invalid(kToolChoiceField, "is -1; limit is [0, 4]")},
              {"required of none", Require(""),
               Invalid(kToolChoiceField, "is required without chat.tools_json; limit is a chat with tools")},
              {"named of none", Name("", "f"),
               Invalid(kToolChoiceField, "names a tool without chat.tools_json; limit is a chat with tools")},
              {"a name that none has", Name(Tool("f"), "g"),
               Invalid("chat.tool_choice.name",
                       "is \"g\", which chat.tools_json does not have; limit is the name of one of the tools")},
              {"no name", Name(Tool("f"), ""),
               Invalid("chat.tool_choice.name",
                       "is \"\", which chat.tools_json does not have; limit is the name of one of the tools")},
              {"a name of a megabyte", Name(Tool("f"), Times(1000000, "n")),
               Invalid("chat.tool_choice.name",
                       absl::StrCat("is \"", Times(32, "n"),
                                    "\", which chat.tools_json does not have; limit is the name of one of the tools"))},
              {"a name with a line break", Name(Tool("f"), "f\\n"),
               Invalid("chat.tool_choice.name",
                       "is \"f\\n\", which chat.tools_json does not have; limit is the name of one of the tools")},
              {"required beside a schema", Require(Tool("f"), "structured_output { json_object: true }"),
               Invalid(kToolChoiceField, "is required beside structured_output; limit is one of the two")},
              {"required of a model of unknown form", Require(Tool("f"), "model: 'strict'"),
               Invalid(kToolChoiceField,
                       "is required; limit is auto or none: the form of this model's tool calls is not known "
                       "(models[].tool_parser)")},
              {"one tool too many", Require(Tools(129)), Invalid(kToolsField, "has 129 entries; limit is 128")},
              {"tools of 300 KB",
               Require(Tool("f", absl::StrCat(R"({"type": "object", "description": ")", Times(300000, "d"), "\"}"))),
               Invalid(kToolsField, "has ~ bytes, which chat.tool_choice makes a grammar; limit is 262144 bytes")},
              {"two functions of one name", Require(absl::StrCat(Tool("f"), ",", Tool("f"))),
               Invalid(kToolsField, "has two functions named \"f\"; limit is one")},
              {"a function without a name", Require(Tool("")),
               Invalid(kToolsField, absl::StrCat("has a function named \"\"; ", kNames))},
              {"a function with a space", Require(Tool("a b")),
               Invalid(kToolsField, absl::StrCat("has a function named \"a b\"; ", kNames))},
              {"a function with a long name", Require(Tool(Times(65, "n"))),
               Invalid(kToolsField, absl::StrCat("has a function named \"", Times(32, "n"), "\"; ", kNames))},
              {"parameters that are nested deeply",
               Require(Tool("f", absl::StrCat(R"({"type": "object", "properties": {"a": )", Times(60, R"({"items":)"),
                                              "true", Times(60, "}"), "}}"))),
               Invalid(kToolsField, "is nested deeper than 64; limit is 64")},
          }};
}

}  // namespace dunlin::integration
