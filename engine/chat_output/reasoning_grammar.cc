// SPDX-License-Identifier: Apache-2.0
// Reasoning before what a grammar constrains (call_grammar.h).
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/string_view.h"
#include "engine/chat_output/call_grammar.h"
#include "engine/chat_output/chat_output_parser.h"

namespace dunlin::engine {
namespace {

// A text up to and with a marker, as a rule's modifiers and right side.
std::string Until(const std::string& rule, std::string_view marker, const Tokenizer* tokenizer) {
  if (IsSpecialMarker(marker, tokenizer)) {
    return absl::StrCat(rule, ": /(?s:.*)/ ", MarkerTerm(marker, tokenizer), "\n");
  }
  return absl::StrCat(rule, "[suffix=", JsonQuoted(marker), "]: /(?s:.*)/\n");
}

// The rule "thinking", which may match nothing.
std::string ThinkingRules(const ReasoningFormat& format, const Tokenizer* tokenizer, std::string_view prompt) {
  const std::string rest = Until("thought", format.close, tokenizer) + "gap: /\\n{0,2}/\n";
  if (BeginsInReasoning(format, prompt)) return "thinking: thought gap\n" + rest;
  return absl::StrCat("thinking: (", MarkerTerm(format.open, tokenizer), " thought gap)?\n", rest);
}

// Messages on the channel analysis.
std::string HarmonyThinkingRules(const Tokenizer* tokenizer) {
  return absl::StrCat("thinking: (", MarkerTerm("<|channel|>", tokenizer), " \"analysis\" ",
                      MarkerTerm("<|message|>", tokenizer), " thought ", MarkerTerm("<|start|>", tokenizer),
                      " \"assistant\")*\n", Until("thought", "<|end|>", tokenizer));
}

// A regular expression between slashes.
std::string RegexTerm(std::string_view regex) {
  std::string term = "/";
  bool escaped = false;
  for (const char c : regex) {
    if (c == '/' && !escaped) term.push_back('\\');
    if (c == '\n') {
      term.append(escaped ? "n" : "\\n");
    } else {
      term.push_back(c);
    }
    escaped = c == '\\' && !escaped;
  }
  return term + "/";
}

// A constraint as a rule's right side. Errors: as AfterReasoning.
absl::StatusOr<std::string> Body(const GrammarSource& source) {
  switch (source.kind) {
    case GrammarKind::kJsonSchema:
      return absl::StrCat("%json ", source.text);
    case GrammarKind::kJsonObject:
      return std::string(R"(%json {"type": "object"})");
    case GrammarKind::kRegex:
      return RegexTerm(source.text);
    case GrammarKind::kChoice: {
      std::vector<std::string> texts;
      for (const std::string& choice : source.choices) texts.push_back(JsonQuoted(choice));
      return absl::StrJoin(texts, " | ");
    }
    case GrammarKind::kGrammar:
      if (source.text.find("::=") != std::string::npos) {
        return absl::InvalidArgumentError("is GBNF, which cannot follow the reasoning of this model; Lark can");
      }
      return absl::StrCat("%lark {\n", source.text, "\n}");
  }
  return absl::InvalidArgumentError("is of an unknown kind");
}

GrammarSource Lark(std::string text) {
  return {GrammarKind::kGrammar, std::move(text), {}};
}

}  // namespace

GrammarSource ToolCallGrammar(const ChatOutputForms& forms, const CallGrammar& request, std::string_view prompt) {
  const std::string calls = forms.calls->grammar(request);
  if (forms.calls->make_reader == nullptr) {
    return Lark(absl::StrCat("start: thinking calls\n", HarmonyThinkingRules(request.tokenizer), calls));
  }
  if (forms.reasoning == nullptr) return Lark("start: calls\n" + calls);
  return Lark(
      absl::StrCat("start: thinking calls\n", ThinkingRules(*forms.reasoning, request.tokenizer, prompt), calls));
}

absl::StatusOr<GrammarSource> AfterReasoning(GrammarSource source, const ReasoningFormat* reasoning,
                                             const Tokenizer* tokenizer, std::string_view prompt) {
  if (reasoning == nullptr) return source;
  const absl::StatusOr<std::string> body = Body(source);
  if (!body.ok()) return body.status();
  if (reasoning->open.empty()) {
    const std::string final =
        absl::StrCat(MarkerTerm("<|channel|>", tokenizer), " \"final\" ", MarkerTerm("<|message|>", tokenizer));
    return Lark(
        absl::StrCat("start: thinking ", final, " answer\n", HarmonyThinkingRules(tokenizer), "answer: ", *body, "\n"));
  }
  return Lark(
      absl::StrCat("start: thinking answer\n", ThinkingRules(*reasoning, tokenizer, prompt), "answer: ", *body, "\n"));
}

}  // namespace dunlin::engine
