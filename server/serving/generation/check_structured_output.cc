// SPDX-License-Identifier: Apache-2.0
#include "server/serving/generation/check_structured_output.h"

#include <string>

#include "engine/base/string_view.h"
#include "engine/request/field_checks.h"
#include "text/grammar.h"
#include "text/utf8.h"

namespace dunlin::server {
namespace {

using engine::Violation;
using text::GrammarKind;
using F = engine::RequestField;

F FieldOf(GrammarKind kind) {
  switch (kind) {
    case GrammarKind::kJsonSchema:
      return F::kJsonSchema;
    case GrammarKind::kJsonObject:
      return F::kJsonObject;
    case GrammarKind::kRegex:
      return F::kRegex;
    case GrammarKind::kChoice:
      return F::kChoices;
    case GrammarKind::kGrammar:
      return F::kGrammar;
    case GrammarKind::kComposed:
      break;
  }
  return F::kStructuredOutput;
}

std::optional<Violation> CheckText(F field, const std::string& text, size_t max_bytes, engine::FieldIndex index) {
  if (auto v = engine::CheckBytes(field, text.size(), 1, max_bytes, index)) return v;
  if (text::IsValidUtf8(text)) return std::nullopt;
  return Violation{field, "is not UTF-8", "", index, std::nullopt};
}

std::optional<Violation> CheckChoices(const std::vector<std::string>& choices) {
  if (choices.empty()) return Violation{F::kChoices, "has 0 entries", "1 or more", {}, std::nullopt};
  if (auto v = engine::CheckCount(F::kChoices, choices.size(), text::kMaxChoices)) return v;
  size_t bytes = 0;
  for (size_t i = 0; i < choices.size(); ++i) {
    if (auto v = CheckText(F::kChoice, choices[i], text::kMaxChoiceBytes, {static_cast<int64_t>(i), 0})) return v;
    bytes += choices[i].size();
  }
  return engine::CheckBytes(F::kChoices, bytes, 1, text::kMaxChoiceBytes);
}

}  // namespace

std::optional<Violation> CheckStructuredOutput(const text::GrammarSource& source) {
  switch (source.kind) {
    case GrammarKind::kJsonObject:
      return std::nullopt;
    case GrammarKind::kChoice:
      return CheckChoices(source.choices);
    case GrammarKind::kRegex:
      return CheckText(F::kRegex, source.text, text::kMaxRegexBytes, {});
    case GrammarKind::kJsonSchema:
    case GrammarKind::kGrammar:
      return CheckText(FieldOf(source.kind), source.text, text::kMaxGrammarBytes, {});
    case GrammarKind::kComposed:
      break;
  }
  return Violation{F::kStructuredOutput, "is of an unknown kind", "", {}, std::nullopt};
}

F FieldOfStructuredOutput(const text::GrammarSource& source) {
  if (source.kind != GrammarKind::kComposed) return FieldOf(source.kind);
  if (source.parts.empty() || !source.parts[0].of.empty()) return F::kChatTools;
  return FieldOf(source.parts[0].kind);
}

}  // namespace dunlin::server
