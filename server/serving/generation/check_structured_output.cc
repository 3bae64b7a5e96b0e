// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/check_structured_output.h"

#include <string>

#include "engine/base/string_view.h"
#include "engine/request/field_checks.h"
#include "server/serving/record/client_field.h"
#include "text/grammar.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

using engine::Violation;
using text::GrammarKind;
using C = ClientField;

ClientField FieldOf(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return C::kJsonSchema;
    case GrammarKind::kJsonObject:
      return C::kJsonObject;
    case GrammarKind::kRegex:
      return C::kRegex;
    case GrammarKind::kChoice:
      return C::kChoices;
    case GrammarKind::kGrammar:
      return C::kGrammar;
    case GrammarKind::kComposed:
      break;
  }
  return C::kStructuredOutput;
}

std::optional<Violation> CheckText(engine::Field field, const std::string& text, size_t max_bytes,
                                   engine::FieldIndex index) {
  if (auto v = engine::CheckBytes(field, text.size(), 1, max_bytes, index)) return v;
  if (text::IsValidUtf8(text)) return std::nullopt;
  return Violation::Of(field, "is not UTF-8", "", index);
}

std::optional<Violation> CheckChoices(const std::vector<std::string>& choices) {
  if (choices.empty()) return Violation::Of(C::kChoices, "has 0 entries", "1 or more");
  if (auto v = engine::CheckCount(C::kChoices, choices.size(), text::kMaxChoices)) return v;
  size_t bytes = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (auto v = CheckText(C::kChoice, choices[i], text::kMaxChoiceBytes, {static_cast<int64_t>(i), 0})) return v;
    bytes += choices[i].size();
  }
  return engine::CheckBytes(C::kChoices, bytes, 1, text::kMaxChoiceBytes);
}

}  // namespace

std::optional<Violation> CheckStructuredOutput(const text::GrammarSource& source) {
  switch (source.kind) {
    case GrammarKind::kJsonObject:
      return std::nullopt;
    case GrammarKind::kChoice:
      return CheckChoices(source.choices);
    case GrammarKind::kRegex:
      return CheckText(C::kRegex, source.text, text::kMaxRegexBytes, {});
    case GrammarKind::kJsonSchema:
    case GrammarKind::kGrammar:
      return CheckText(FieldOf(source.kind), source.text, text::kMaxGrammarBytes, {});
    case GrammarKind::kComposed:
      break;
  }
  return Violation::Of(C::kStructuredOutput, "is of an unknown kind", "");
}

ClientField FieldOfStructuredOutput(const text::GrammarSource& source) {
  if (source.kind != GrammarKind::kComposed) return FieldOf(source.kind);
  if (source.parts.empty() || !source.parts[0].of.empty()) return C::kChatTools;
  return FieldOf(source.parts[0].kind);
}

}  // namespace dunlin::server
