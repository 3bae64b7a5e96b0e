// SPDX-License-Identifier: Apache-2.0
// The grammars of calls that are written in Python (call_grammar.h).
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/parameters.h"
#include "text/chat_output/pythonic_calls.h"

namespace dunlin::text {
namespace {

// begin, end: around the calls, each a term or empty. JSON's literals are Python's, but for true, false and null, which
// the parser takes too.
std::string PythonCalls(const CallGrammar& request, const std::string& begin, const char* separator,
                        const std::string& end, GrammarParts* parts) {
  std::string rules = AnyCallRule(request);
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const ToolSet::Tool& tool = *request.tools[i];
    const std::vector<Parameter> parameters = ParametersOf(tool, IsPythonicName, parts);
    for (size_t at = 0; at < parameters.size(); ++at) {
      absl::StrAppend(&rules, "arg_", i, "_", at, ": ", GrammarString(parameters[at].name + "="), " ",
                      AddParameter(tool, parameters[at], parts), "\n");
    }
    absl::StrAppend(&rules, "call_", i, ": ", GrammarString(tool.name + "("), " first_", i, "_0 \")\"\n",
                    SeparatedRules(std::to_string(i), ", ", parameters));
  }
  const std::string further = request.several ? absl::StrCat(" (", GrammarString(separator), " call)*") : "";
  return absl::StrCat("calls: ", begin, " call", further, " ", end, "\n", rules);
}

}  // namespace

std::string PythonicCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return PythonCalls(request, R"("[")", ", ", R"("]")", parts);
}

std::string Lfm2CallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return PythonCalls(request, MarkerTerm("<|tool_call_start|>", request.tokenizer) + R"( "[")", ", ",
                     R"("]" )" + MarkerTerm("<|tool_call_end|>", request.tokenizer), parts);
}

std::string Olmo3CallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return PythonCalls(request, MarkerTerm("<function_calls>", request.tokenizer), "\n",
                     MarkerTerm("</function_calls>", request.tokenizer), parts);
}

}  // namespace dunlin::text
