// SPDX-License-Identifier: Apache-2.0
// The forms in which models write what they think before they answer, as one table.
// Constant data; any thread.
// Source: the models' chat templates and cards.
#pragma once

#include <span>
#include <string_view>

#include "text/chat_output/output_frame.h"

namespace dunlin::text {

struct ReasoningFormat {
  const char* name;
  // Around the reasoning, at the start of the output. Where the prompt ends in the opening one, the output begins
  // inside.
  std::string_view open;
  std::string_view close;
  std::span<const std::string_view> tokens;  // that the parser needs and that may be special tokens
  // Calls that end the reasoning where its closing marker is missing. None is a part of `close`.
  std::span<const std::string_view> calls;
  bool (*recognises)(std::string_view chat_template);
  // An output without reasoning may begin with the closing marker.
  bool lone_close = false;
  // Not kNone: harmony_parser.h reads the whole output, in which messages that begin in `open` are reasoning, and one
  // that begins in `answer` is the answer.
  OutputFrame frame = OutputFrame::kNone;
  std::string_view answer = {};
  AnswerTags answer_tags = {};  // behind the reasoning, or without any
};

// In the order in which they are tried.
std::span<const ReasoningFormat> ReasoningFormats();

const ReasoningFormat* FindReasoningFormat(std::string_view name);                // null: there is none
const ReasoningFormat* RecogniseReasoningFormat(std::string_view chat_template);  // null: none is recognised

// Whether an output after this prompt begins inside the reasoning: only white space follows the last opening marker.
bool BeginsInReasoning(const ReasoningFormat& format, std::string_view prompt);

}  // namespace dunlin::text
