// SPDX-License-Identifier: Apache-2.0
// Prints an output while it arrives, as text: `dunlin generate` without --json, and `dunlin chat`. Reasoning is for
// people, so it is printed on a terminal only, dimmed and set off by an empty line.
#pragma once

#include <ostream>
#include <string_view>

#include "dunlin/v1/generation.pb.h"
#include "tools/cli/completion.h"
#include "tools/cli/terminal.h"

namespace dunlin::cli {

class AnswerPrinter {
 public:
  AnswerPrinter(std::ostream* out, const TerminalStyle& style) : out_(*out), style_(style) {}

  // Of output 0; those of others are not printed.
  void Add(const v1::GenerateResponse& response);
  // Ends a line that has begun: what follows is no part of the answer.
  void EndLine();
  // Ends the line, and prints one line of JSON for each tool call.
  void End(const CompletionOutput& output);

 private:
  enum class Part { kNone, kReasoning, kText };

  void Print(Part part, std::string_view text);

  std::ostream& out_;
  const TerminalStyle style_;
  Part part_ = Part::kNone;
  bool line_begins_ = true;
};

}  // namespace dunlin::cli
