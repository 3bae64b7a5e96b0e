// SPDX-License-Identifier: Apache-2.0
// Grammars that make a model call tools, in its own form, and that let a model think before what a grammar constrains.
// They are of GrammarKind::kComposed: schemas and what clients gave are parts, around which stands Lark as llguidance
// defines it, with the attribute suffix and special tokens as <[id]>.
// Pure functions, any thread.
// Source: llguidance, docs/syntax.md.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "text/chat_output/tool_set.h"
#include "text/grammar.h"
#include "text/grammar_source.h"
#include "text/tokenizer.h"

namespace dunlin::text {

struct ChatOutputForms;
struct Parameter;
struct ReasoningFormat;
struct ToolFormat;

// What the rule "calls" is made of.
struct CallGrammar {
  std::vector<const ToolSet::Tool*> tools;  // that may be called; not empty
  bool several = true;                      // more than one call
  const Tokenizer* tokenizer = nullptr;     // null: no marker is a special token
};

// A marker in a grammar: a special token by its id, other text in quotes.
std::string MarkerTerm(std::string_view marker, const Tokenizer* tokenizer);
bool IsSpecialMarker(std::string_view marker, const Tokenizer* tokenizer);
// The same of a text with markers in it.
std::string MarkupTerms(std::string_view text, std::span<const std::string_view> markers, const Tokenizer* tokenizer);
inline constexpr std::string_view kAnyText = "/(?s:.*)/";
// A rule: a text up to `end`, which is markup of `markers`, and `end`. text: a terminal, of all that may come before.
std::string TextUntilRule(std::string_view rule, std::string_view text, std::string_view end,
                          std::span<const std::string_view> markers, const Tokenizer* tokenizer);

// `text` as a string of a grammar.
std::string GrammarString(std::string_view text);

// "call: call_0 | call_1", the rules of a call of each tool.
std::string AnyCallRule(const CallGrammar& request);

// The rules "first_N_I", what is written of an object N from its parameter I on, and "more_N_I", the same behind a
// separator: all that are required, which come first, then any of the others in their order. Each is a rule "arg_N_I".
std::string SeparatedRules(std::string_view object, std::string_view separator,
                           const std::vector<Parameter>& parameters);

// The schemas that the text of a grammar refers to. Of what cannot be a grammar, the first reason is kept.
class GrammarParts {
 public:
  // How a JSON Schema is referred to. function: whose arguments it is for; an error of the schema names it.
  std::string Add(std::string schema, std::string_view function);
  bool full() const { return bytes_ > kMaxComposedBytes; }  // what is added further is not kept
  // why: completes the sentence "chat.tools in function "f" ...".
  void Refuse(std::string_view function, std::string_view why);
  // Errors: UNIMPLEMENTED (what was refused), RESOURCE_EXHAUSTED (kMaxComposedBytes).
  absl::StatusOr<std::vector<GrammarSource>> Take() &&;

 private:
  absl::Status status_;
  size_t bytes_ = 0;
  std::vector<GrammarSource> parts_;
};

// One for each form: rules in Lark, of which "calls" is all that the model writes of its calls; what they refer to is
// added to *parts.
std::string HermesCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string GraniteCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string LlamaCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string MistralCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string DeepseekCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string PythonicCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string Lfm2CallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string QwenCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string GlmCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string MinimaxCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string MinimaxM3CallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string MuseCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string DsmlCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string GemmaCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string KimiCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string FunctionGemmaCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string Olmo3CallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string SeedCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string Hy3CallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string HunyuanCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string NemotronCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string Phi4MiniCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string CohereCallGrammar(const CallGrammar& request, GrammarParts* parts);
std::string HarmonyCallGrammar(const CallGrammar& request, GrammarParts* parts);

// The whole output: reasoning, where the form of it is known, then calls. forms.calls is not null. prompt: as
// ChatOutputParser. Errors: as GrammarParts::Take.
absl::StatusOr<GrammarSource> ToolCallGrammar(const ChatOutputForms& forms, const CallGrammar& request,
                                              std::string_view prompt);

// A grammar of what follows the reasoning: `source` itself where no reasoning can come. source is not kComposed.
GrammarSource AfterReasoning(GrammarSource source, const ReasoningFormat* reasoning, const Tokenizer* tokenizer,
                             std::string_view prompt);

}  // namespace dunlin::text
