// SPDX-License-Identifier: Apache-2.0
#include "text/chat_output/call_grammar.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "engine/base/string_view.h"
#include "text/chat_output/parameters.h"
#include "text/chat_output/scan.h"

namespace dunlin::text {
namespace {

using Json = nlohmann::ordered_json;

// A rule that allows what any of the tools allows, with a rule "args_N" for the arguments of each.
// body(name): a rule's right side for a call of `name` with `args`, the rule of its arguments.
using CallBody = std::function<std::string(const std::string& name, const std::string& args)>;

// "call: call_0 | call_1" and what these need.
std::string CallRules(const CallGrammar& request, const std::string& rule, const CallBody& body) {
  std::vector<std::string> names;
  std::string rules;
  for (size_t i = 0; i < request.tools.size(); ++i) {
    names.push_back(absl::StrCat(rule, "_", i));
    absl::StrAppend(&rules, names.back(), ": ", body(request.tools[i]->name, absl::StrCat("args_", i)), "\n");
  }
  return absl::StrCat(rule, ": ", absl::StrJoin(names, " | "), "\n", rules);
}

std::string ArgumentRules(const CallGrammar& request, GrammarParts* parts) {
  std::string rules;
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const ToolSet::Tool& tool = *request.tools[i];
    if (!TakesObject(tool)) parts->Refuse(tool.name, kNoObject);
    Json schema = tool.parameters.is_object() ? tool.parameters : Json::object();
    schema["type"] = "object";
    absl::StrAppend(&rules, "args_", i, ": ", parts->Add(schema.dump(), tool.name), "\n");
  }
  return rules;
}

// `first`, and where several calls may be any number of `further`.
std::string Repeated(const CallGrammar& request, const std::string& first, const std::string& further) {
  return request.several ? absl::StrCat(first, " (", further, ")*") : first;
}

// {"name": NAME, WORD: OBJECT}
CallBody ObjectBody(const char* word) {
  return [word](const std::string& name, const std::string& args) {
    const std::string head = absl::StrCat("{\"name\": ", JsonQuoted(name), ", \"", word, "\": ");
    return absl::StrCat(GrammarString(head), " ", args, " \"}\"");
  };
}

std::string Term(std::string_view marker, const CallGrammar& request) {
  return MarkerTerm(marker, request.tokenizer);
}

// A list of calls between markers.
std::string MarkedListGrammar(std::string_view begin, std::string_view end, const CallGrammar& request,
                              GrammarParts* parts) {
  const std::string last = end.empty() ? "" : " " + Term(end, request);
  return absl::StrCat("calls: ", Term(begin, request), R"( "[" )", Repeated(request, "call", R"(", " call)"), R"( "]")",
                      last, "\n", CallRules(request, "call", ObjectBody("arguments")), ArgumentRules(request, parts));
}

}  // namespace

bool IsSpecialMarker(std::string_view marker, const Tokenizer* tokenizer) {
  if (tokenizer == nullptr) return false;
  const std::optional<engine::TokenId> id = tokenizer->TokenToId(marker);
  return id.has_value() && tokenizer->IsSpecial(*id);
}

std::string GrammarString(std::string_view text) {
  return absl::StrReplaceAll(JsonQuoted(text), {{"\x7f", "\\u007f"}});
}

std::string GrammarParts::Add(std::string schema, std::string_view function) {
  bytes_ += schema.size();
  std::string reference = absl::StrCat("@part_", parts_.size());
  GrammarSource& part = parts_.emplace_back();
  part.kind = GrammarKind::kJsonSchema;
  part.of = absl::StrCat("function \"", engine::AbslView(function), "\"");
  if (!full()) part.text = std::move(schema);
  return reference;
}

void GrammarParts::Refuse(std::string_view function, std::string_view why) {
  if (!status_.ok()) return;
  status_ = absl::UnimplementedError(
      absl::StrCat("in function \"", engine::AbslView(function), "\" ", engine::AbslView(why)));
}

absl::StatusOr<std::vector<GrammarSource>> GrammarParts::Take() && {
  if (!status_.ok()) return status_;
  if (!full()) return std::move(parts_);
  return absl::ResourceExhaustedError(
      absl::StrCat("becomes a grammar with ", bytes_, " bytes of schemas; limit is ", kMaxComposedBytes));
}

std::string MarkerTerm(std::string_view marker, const Tokenizer* tokenizer) {
  if (!IsSpecialMarker(marker, tokenizer)) return GrammarString(marker);
  return absl::StrCat("<[", *tokenizer->TokenToId(marker), "]>");
}

std::string MarkupTerms(std::string_view text, std::span<const std::string_view> markers, const Tokenizer* tokenizer) {
  std::vector<std::string_view> special;
  std::copy_if(markers.begin(), markers.end(), std::back_inserter(special),
               [tokenizer](std::string_view marker) { return IsSpecialMarker(marker, tokenizer); });
  std::vector<std::string> terms;
  while (!text.empty()) {
    const MarkerMatch match = FindMarker(text, special);
    const size_t before = match.marker.has_value() ? match.position : text.size();
    if (before > 0) terms.push_back(GrammarString(text.substr(0, before)));
    text.remove_prefix(before);
    if (!match.marker.has_value()) break;
    terms.push_back(MarkerTerm(special[*match.marker], tokenizer));
    text.remove_prefix(special[*match.marker].size());
  }
  return absl::StrJoin(terms, " ");
}

std::string TextUntilRule(std::string_view rule, std::string_view text, std::string_view end,
                          std::span<const std::string_view> markers, const Tokenizer* tokenizer) {
  const std::string terms = MarkupTerms(end, markers, tokenizer);
  const bool special = terms != GrammarString(end);
  return absl::StrCat(engine::AbslView(rule), special ? "" : absl::StrCat("[suffix=", terms, "]"), ": ",
                      engine::AbslView(text), special ? " " + terms : "", "\n");
}

std::string AnyCallRule(const CallGrammar& request) {
  std::vector<std::string> names;
  for (size_t i = 0; i < request.tools.size(); ++i) names.push_back(absl::StrCat("call_", i));
  return absl::StrCat("call: ", absl::StrJoin(names, " | "), "\n");
}

std::string SeparatedRules(std::string_view object, std::string_view separator,
                           const std::vector<Parameter>& parameters) {
  std::string rules;
  const auto rule = [object](const char* name, size_t at) {
    return absl::StrCat(name, "_", engine::AbslView(object), "_", at);
  };
  for (size_t at = 0; at < parameters.size(); ++at) {
    const std::string here = absl::StrCat(rule("arg", at), " ", rule("more", at + 1));
    const bool required = parameters[at].required;
    absl::StrAppend(&rules, rule("more", at), ": ", GrammarString(separator), " ", here,
                    required ? "" : " | " + rule("more", at + 1), "\n");
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

std::string HermesCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const std::string one =
      absl::StrCat(Term("<tool_call>", request), R"( "\n" call "\n" )", Term("</tool_call>", request));
  return absl::StrCat("calls: ", Repeated(request, one, R"("\n" )" + one), "\n",
                      CallRules(request, "call", ObjectBody("arguments")), ArgumentRules(request, parts));
}

std::string GraniteCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return absl::StrCat("calls: (", Term("<|tool_call|>", request), " | ", Term("<tool_call>", request), ") \"[\" ",
                      Repeated(request, "call", R"(", " call)"), " \"]\"\n",
                      CallRules(request, "call", ObjectBody("arguments")), ArgumentRules(request, parts));
}

std::string HunyuanCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return MarkedListGrammar("<tool_calls>", "</tool_calls>", request, parts);
}

std::string NemotronCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return MarkedListGrammar("<TOOLCALL>", "</TOOLCALL>", request, parts);
}

std::string Phi4MiniCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return MarkedListGrammar("functools", "", request, parts);
}

// Ids are numbers in the chat, which the model counts.
std::string CohereCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const auto body = [](const std::string& name, const std::string& args) {
    const std::string rest = absl::StrCat("\", \"tool_name\": ", JsonQuoted(name), ", \"parameters\": ");
    return absl::StrCat(R"("    {\"tool_call_id\": \"" /0|[1-9][0-9]{0,3}/ )", GrammarString(rest), " ", args,
                        R"( "}")");
  };
  return absl::StrCat("calls: ", Term("<|START_ACTION|>", request), R"( "[\n" )",
                      Repeated(request, "call", R"(",\n" call)"), R"( "\n]" )", Term("<|END_ACTION|>", request), "\n",
                      CallRules(request, "call", body), ArgumentRules(request, parts));
}

std::string LlamaCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  return absl::StrCat("calls: ", Repeated(request, "call", R"("; " call)"), "\n",
                      CallRules(request, "call", ObjectBody("parameters")), ArgumentRules(request, parts));
}

std::string MistralCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const std::string begin = Term("[TOOL_CALLS]", request);
  const std::string list = absl::StrCat(begin, R"( " "? "[" )", Repeated(request, "call", R"(", " call)"), R"( "]")");
  std::string rules = CallRules(request, "call", ObjectBody("arguments")) + ArgumentRules(request, parts);
  if (!IsSpecialMarker("[ARGS]", request.tokenizer)) return absl::StrCat("calls: ", list, "\n", rules);
  const std::string args = Term("[ARGS]", request);
  rules += CallRules(request, "named", [&](const std::string& name, const std::string& arguments) {
    return absl::StrCat(begin, " ", GrammarString(name), " ", args, " ", arguments);
  });
  return absl::StrCat("calls: ", list, " | ", Repeated(request, "named", "named"), "\n", rules);
}

std::string DeepseekCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const std::string begin = Term("<｜tool▁call▁begin｜>", request);
  const std::string separator = Term("<｜tool▁sep｜>", request);
  const std::string end = Term("<｜tool▁call▁end｜>", request);
  const auto fenced = [&](const std::string& name, const std::string& args) {
    return absl::StrCat(begin, " \"function\" ", separator, " ", GrammarString(name + "\n```json\n"), " ", args,
                        R"( "\n```" )", end);
  };
  const auto plain = [&](const std::string& name, const std::string& args) {
    return absl::StrCat(begin, " ", GrammarString(name), " ", separator, " ", args, " ", end);
  };
  return absl::StrCat("calls: ", Term("<｜tool▁calls▁begin｜>", request), " (",
                      Repeated(request, "fenced", R"("\n" fenced)"), " | ", Repeated(request, "plain", "plain"), ") ",
                      Term("<｜tool▁calls▁end｜>", request), "\n", CallRules(request, "fenced", fenced),
                      CallRules(request, "plain", plain), ArgumentRules(request, parts));
}

// A call's id is its function and its number in the chat, which the model counts.
std::string KimiCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const auto body = [&](const std::string& name, const std::string& args) {
    return absl::StrCat(Term("<|tool_call_begin|>", request), " ", GrammarString(absl::StrCat("functions.", name, ":")),
                        " /0|[1-9][0-9]{0,3}/ ", Term("<|tool_call_argument_begin|>", request), " ", args, " ",
                        Term("<|tool_call_end|>", request));
  };
  return absl::StrCat("calls: ", Term("<|tool_calls_section_begin|>", request), " ", Repeated(request, "call", "call"),
                      " ", Term("<|tool_calls_section_end|>", request), "\n", CallRules(request, "call", body),
                      ArgumentRules(request, parts));
}

// One call: the model ends its turn with it.
std::string HarmonyCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const std::string channel = Term("<|channel|>", request);
  const std::string rest = absl::StrCat(Term("<|constrain|>", request), " \"json\" ", Term("<|message|>", request));
  return absl::StrCat("calls: call\n",
                      CallRules(request, "call",
                                [&](const std::string& name, const std::string& args) {
                                  const std::string to = absl::StrCat("commentary to=functions.", name, " ");
                                  return absl::StrCat(channel, " ", GrammarString(to), " ", rest, " ", args);
                                }),
                      ArgumentRules(request, parts));
}

}  // namespace dunlin::text
