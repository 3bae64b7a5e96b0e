// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/answer_printer.h"

namespace dunlin::cli {

void AnswerPrinter::Print(Part part, std::string_view text) {
  if (text.empty()) return;
  if (part_ != Part::kNone && part_ != part) out_ << (line_begins_ ? "\n" : "\n\n");
  part_ = part;
  out_ << (part == Part::kReasoning ? Dimmed(text, style_) : Shown(text, style_));
  line_begins_ = text.back() == '\n';
}

void AnswerPrinter::Add(const v1::GenerateResponse& response) {
  if (response.index() != 0) return;
  if (style_.terminal) Print(Part::kReasoning, response.reasoning_delta());
  Print(Part::kText, response.text_delta());
  out_ << std::flush;
}

void AnswerPrinter::EndLine() {
  if (!line_begins_) out_ << "\n" << std::flush;
  line_begins_ = true;
}

void AnswerPrinter::End(const CompletionOutput& output) {
  if (part_ == Part::kText || !line_begins_ || output.tool_calls.empty()) out_ << "\n";
  for (const v1::ToolCall& call : output.tool_calls) out_ << Shown(ToolCallJson(call).dump(), style_) << "\n";
  out_ << std::flush;
}

}  // namespace dunlin::cli
