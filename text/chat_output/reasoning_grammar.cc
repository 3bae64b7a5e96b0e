// SPDX-License-Identifier: Apache-2.0
// Reasoning before what a grammar constrains (call_grammar.h).
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/string_view.h"
#include "text/chat_output/call_grammar.h"
#include "text/chat_output/chat_output_parser.h"

namespace dunlin::text {
namespace {

// A text as a regular expression.
std::string Pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (absl::ascii_ispunct(static_cast<unsigned char>(c))) {
      absl::StrAppendFormat(&pattern, "\\x%02X", static_cast<unsigned>(c));
    } else {
      pattern.push_back(c);
    }
  }
  return pattern;
}

// Any text up to the marker that closes the reasoning, but without the calls that would end it.
std::string ThoughtRules(const ReasoningFormat& format, const Tokenizer* tokenizer) {
  if (format.calls.empty()) return TextUntilRule("thought", kAnyText, format.close, format.tokens, tokenizer);
  std::string text = absl::StrCat("THOUGHT: ", engine::AbslView(kAnyText));
  for (const std::string_view call : format.calls) {
    absl::StrAppend(&text, " & ~/(?s:.*)", Pattern(call), "(?s:.*)/");
  }
  return absl::StrCat(text, "\n", TextUntilRule("thought", "THOUGHT", format.close, format.tokens, tokenizer));
}

// The rule "thinking", which may match nothing.
std::string ThinkingRules(const ReasoningFormat& format, const Tokenizer* tokenizer, std::string_view prompt) {
  const std::string rest = ThoughtRules(format, tokenizer) + "gap: /\\n{0,2}/\n";
  if (BeginsInReasoning(format, prompt)) return "thinking: thought gap\n" + rest;
  const std::string closed =
      format.lone_close ? absl::StrCat(" | ", MarkupTerms(format.close, format.tokens, tokenizer), " gap") : "";
  return absl::StrCat("thinking: (", MarkupTerms(format.open, format.tokens, tokenizer), " thought gap", closed, ")?\n",
                      rest);
}

// Messages of reasoning.
std::string MessageThinkingRules(const ReasoningFormat& format, const Tokenizer* tokenizer) {
  return absl::StrCat("thinking: (", MarkupTerms(format.open, format.tokens, tokenizer), " thought ",
                      MarkupTerms("<|start|>assistant", format.tokens, tokenizer), ")*\n",
                      ThoughtRules(format, tokenizer));
}

// Of the outputs of a frame, which may have reasoning in any case.
const ReasoningFormat& FormatOf(OutputFrame frame) {
  return *std::find_if(ReasoningFormats().begin(), ReasoningFormats().end(),
                       [frame](const ReasoningFormat& format) { return format.frame == frame; });
}

GrammarSource Composed(std::string lark, std::vector<GrammarSource> parts) {
  GrammarSource source;
  source.kind = GrammarKind::kComposed;
  source.text = std::move(lark);
  source.parts = std::move(parts);
  return source;
}

}  // namespace

absl::StatusOr<GrammarSource> ToolCallGrammar(const ChatOutputForms& forms, const CallGrammar& request,
                                              std::string_view prompt) {
  GrammarParts added;
  const std::string calls = forms.calls->grammar(request, &added);
  absl::StatusOr<std::vector<GrammarSource>> parts = std::move(added).Take();
  if (!parts.ok()) return parts.status();
  std::string thinking;
  if (forms.calls->frame != OutputFrame::kNone) {
    thinking = MessageThinkingRules(FormatOf(forms.calls->frame), request.tokenizer);
  } else if (forms.reasoning != nullptr) {
    thinking = ThinkingRules(*forms.reasoning, request.tokenizer, prompt);
  }
  const char* start = thinking.empty() ? "start: calls\n" : "start: thinking calls\n";
  return Composed(absl::StrCat(start, thinking, calls), *std::move(parts));
}

GrammarSource AfterReasoning(GrammarSource source, const ReasoningFormat* reasoning, const Tokenizer* tokenizer,
                             std::string_view prompt) {
  if (reasoning == nullptr) return source;
  std::vector<GrammarSource> parts = {std::move(source)};
  if (reasoning->frame != OutputFrame::kNone) {
    const std::string answer = MarkupTerms(reasoning->answer, reasoning->tokens, tokenizer);
    return Composed(absl::StrCat("start: thinking ", answer, " @part_0\n", MessageThinkingRules(*reasoning, tokenizer)),
                    std::move(parts));
  }
  return Composed(absl::StrCat("start: thinking @part_0\n", ThinkingRules(*reasoning, tokenizer, prompt)),
                  std::move(parts));
}

}  // namespace dunlin::text
