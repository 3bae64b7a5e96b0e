// SPDX-License-Identifier: Apache-2.0
// The grammars of calls that are written in tags (call_grammar.h, tagged_calls.h).
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/parameters.h"
#include "text/chat_output/tagged_calls.h"
#include "text/chat_output/tool_formats.h"

namespace dunlin::text {
namespace {

// How a form writes its tags.
struct Layout {
  const CallTags& tags;
  const char* form;                        // in the table of forms, which has its markers
  std::string_view before_call;            // before the tag of the function
  std::string_view gap;                    // between tags: Lark
  std::string_view before_end;             // between a value and its end
  bool (*is_name)(std::string_view name);  // of a parameter
};

class TaggedGrammar {
 public:
  TaggedGrammar(const Layout& layout, const CallGrammar& request, GrammarParts* parts)
      : layout_(layout), tags_(layout.tags), request_(request), parts_(parts) {}

  std::string Terms(std::string_view text) const {
    return MarkupTerms(text, FindToolFormat(layout_.form)->tokens, request_.tokenizer);
  }

  // The rule "call", from its first tag or name to its last one, and what it needs.
  std::string CallRules() const {
    std::string rules = AnyCallRule(request_);
    const auto gap = engine::AbslView(layout_.gap);
    for (size_t i = 0; i < request_.tools.size(); ++i) {
      const ToolSet::Tool& tool = *request_.tools[i];
      absl::StrAppend(&rules, "call_", i, ": ",
                      Terms(absl::StrCat(engine::AbslView(layout_.before_call), engine::AbslView(tags_.call), tool.name,
                                         engine::AbslView(tags_.name_end))),
                      " ", gap);
      for (const Parameter& parameter : ParametersOf(tool, layout_.is_name, parts_)) {
        absl::StrAppend(&rules, " (", ParameterTerms(tool, parameter), " ", gap, ")", parameter.required ? "" : "?");
      }
      absl::StrAppend(&rules, " ", Terms(tags_.call_end), "\n");
    }
    return rules + TextUntilRule("text_value", kAnyText, tags_.value_end, FindToolFormat(layout_.form)->tokens,
                                 request_.tokenizer);
  }

 private:
  std::string ParameterTerms(const ToolSet::Tool& tool, const Parameter& parameter) const {
    const std::string key = absl::StrCat(engine::AbslView(tags_.key), parameter.name, engine::AbslView(tags_.key_end));
    if (tags_.value.size() == 2) return Terms(key) + " \" \" " + TypedValue(tool, parameter);
    if (tags_.value.empty())
      return absl::StrCat(Terms(absl::StrCat(key, engine::AbslView(layout_.before_end))), " ", Value(tool, parameter));
    return absl::StrCat(Terms(key), " ", engine::AbslView(layout_.gap), " ", Terms(tags_.value[0]), " ",
                        Value(tool, parameter));
  }

  // A value whose tag says whether it is a string. What may be one or not, and has further rules, is written as JSON.
  std::string TypedValue(const ToolSet::Tool& tool, const Parameter& parameter) const {
    const ParameterText text = TextOf(tool, parameter.name);
    std::vector<std::string> ways;
    if (text == ParameterText::kText || (text == ParameterText::kEither && SaysTypesOnly(parameter.schema))) {
      ways.push_back(absl::StrCat(Terms(tags_.value[0]), " ", TextValue(tool, parameter)));
    }
    if (text != ParameterText::kText) {
      ways.push_back(absl::StrCat(Terms(tags_.value[1]), " ", JsonValue(tool, parameter)));
    }
    return absl::StrCat("(", absl::StrJoin(ways, " | "), ")");
  }

  // With the tag that ends it, as the following.
  std::string Value(const ToolSet::Tool& tool, const Parameter& parameter) const {
    const bool is_json = TextOf(tool, parameter.name) == ParameterText::kJson;
    return is_json ? JsonValue(tool, parameter) : TextValue(tool, parameter);
  }
  std::string JsonValue(const ToolSet::Tool& tool, const Parameter& parameter) const {
    return absl::StrCat(AddParameter(tool, parameter, parts_), " ", Terms(End("")));
  }
  // A text ends with the first such tag.
  std::string TextValue(const ToolSet::Tool& tool, const Parameter& parameter) const {
    if (SaysTypesOnly(parameter.schema)) return "text_value";
    const auto choices = TextChoices(parameter.schema, tags_.value_end);
    if (!choices.has_value()) {
      RefuseText(tool, parameter.name, parts_);
      return "text_value";
    }
    std::vector<std::string> texts;
    for (const std::string& choice : *choices) texts.push_back(Terms(End(choice)));
    return absl::StrCat("(", absl::StrJoin(texts, " | "), ")");
  }
  std::string End(std::string_view value) const {
    return absl::StrCat(engine::AbslView(value), engine::AbslView(layout_.before_end),
                        engine::AbslView(tags_.value_end));
  }

  const Layout& layout_;
  const CallTags& tags_;
  const CallGrammar& request_;
  GrammarParts* const parts_;
};

constexpr std::string_view kLineBreak = R"("\n")";

// Each call in a pair of markers. gap: between them, Lark.
std::string MarkedCalls(const std::string& begin, const std::string& end, std::string_view gap, bool several) {
  const std::string one = absl::StrCat(begin, " call", end);
  const std::string further = several ? absl::StrCat(" (", engine::AbslView(gap), " ", one, ")*") : "";
  return absl::StrCat("calls: ", one, further, "\n");
}

// All calls in one pair of markers, or in one of several.
std::string BlockOfCalls(const TaggedGrammar& grammar, std::span<const std::pair<std::string, std::string>> blocks,
                         bool several) {
  std::vector<std::string> ways;
  for (const auto& [begin, end] : blocks) {
    ways.push_back(absl::StrCat(grammar.Terms(begin + "\n"), " call \"\\n\"", several ? " (call \"\\n\")*" : "", " ",
                                grammar.Terms(end)));
  }
  return absl::StrCat("calls: ", absl::StrJoin(ways, " | "), "\n");
}

}  // namespace

std::string QwenCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kQwenTags, "qwen3_coder", "\n", kLineBreak, "\n", IsTagName};
  const TaggedGrammar grammar(layout, request, parts);
  return absl::StrCat(MarkedCalls(grammar.Terms("<tool_call>"), R"( "\n" )" + grammar.Terms("</tool_call>"), kLineBreak,
                                  request.several),
                      grammar.CallRules());
}

std::string SeedCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kQwenTags, "seed_oss", "\n", kLineBreak, "", IsTagName};
  const TaggedGrammar grammar(layout, request, parts);
  return absl::StrCat(MarkedCalls(grammar.Terms("<seed:tool_call>"), R"( "\n" )" + grammar.Terms("</seed:tool_call>"),
                                  kLineBreak, request.several),
                      grammar.CallRules());
}

std::string Hy3CallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kHy3Tags, "hy_v3", "", R"("\n"?)", "", IsTagName};
  const TaggedGrammar grammar(layout, request, parts);
  const std::pair<std::string, std::string> block = {"<tool_calls>", "</tool_calls>"};
  return BlockOfCalls(grammar, {&block, 1}, request.several) + grammar.CallRules();
}

// Models differ in whether they write line breaks between the tags.
std::string GlmCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kGlmTags, "glm", "", R"("\n"?)", "", IsTagName};
  const TaggedGrammar grammar(layout, request, parts);
  return MarkedCalls(grammar.Terms("<tool_call>"), "", layout.gap, request.several) + grammar.CallRules();
}

std::string MinimaxCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kMinimaxTags, "minimax_m2", "", kLineBreak, "", IsQuotedTagName};
  const TaggedGrammar grammar(layout, request, parts);
  const std::pair<std::string, std::string> block = {"<minimax:tool_call>", "</minimax:tool_call>"};
  return BlockOfCalls(grammar, {&block, 1}, request.several) + grammar.CallRules();
}

// A message to each function's recipient, with its calls. The model doubles names without a '.'.
std::string MuseCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kAtemTags, "muse_glimmer", "", kLineBreak, "", IsQuotedTagName};
  const TaggedGrammar grammar(layout, request, parts);
  std::vector<std::string> names;
  std::string messages;
  for (size_t i = 0; i < request.tools.size(); ++i) {
    const std::string& tool = request.tools[i]->name;
    std::string to = GrammarString(" to=" + tool);
    if (tool.find('.') == std::string::npos) {
      to = absl::StrCat("(", to, " | ", GrammarString(absl::StrCat(" to=", tool, ".", tool)), ")");
    }
    names.push_back(absl::StrCat("message_", i));
    absl::StrAppend(&messages, names.back(), ": ", to, " ", grammar.Terms("<|message|><atem:function_calls>\n"),
                    " call_", i, R"( "\n</atem:function_calls>")", "\n");
  }
  const std::string further =
      request.several ? absl::StrCat(" (", grammar.Terms("<|eom|><|start|>assistant"), " message)*") : "";
  return absl::StrCat("calls: message", further, "\nmessage: ", absl::StrJoin(names, " | "), "\n", messages,
                      grammar.CallRules());
}

std::string DsmlCallGrammar(const CallGrammar& request, GrammarParts* parts) {
  const Layout layout = {kDsmlTags, "dsml", "", kLineBreak, "", IsQuotedTagName};
  const TaggedGrammar grammar(layout, request, parts);
  const std::pair<std::string, std::string> blocks[] = {{"<｜DSML｜function_calls>", "</｜DSML｜function_calls>"},
                                                        {"<｜DSML｜tool_calls>", "</｜DSML｜tool_calls>"}};
  return BlockOfCalls(grammar, blocks, request.several) + grammar.CallRules();
}

}  // namespace dunlin::text
