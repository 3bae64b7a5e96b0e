// SPDX-License-Identifier: Apache-2.0
// One output of a chat: reasoning, text and tool calls, told apart while they are decoded. The pieces in which the text
// comes never change what comes out, but for where it is divided.
// Owner: the output of a request. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "text/chat_output/call_buffer.h"
#include "text/chat_output/chat_output_sink.h"
#include "text/chat_output/output_stage.h"
#include "text/chat_output/reasoning_formats.h"
#include "text/chat_output/tool_formats.h"
#include "text/chat_output/tool_set.h"

namespace dunlin::text {

// What of a chat's output is told apart.
struct ChatOutputForms {
  const ReasoningFormat* reasoning = nullptr;  // null: none is
  const ToolFormat* calls = nullptr;           // null: none are
};

// Whether the two can read one output: their frames are the same, or one is null.
bool Fit(const ChatOutputForms& forms);

// The forms of a model whose configuration says these, each "auto", "none" or a name, and whose chat template this is.
// Of two that do not fit, one that is only recognised gives way. Errors: INVALID_ARGUMENT (an unknown name; two names
// that do not fit).
absl::StatusOr<ChatOutputForms> ChooseForms(const std::string& tool_parser, const std::string& reasoning_parser,
                                            std::string_view chat_template);

class ChatOutputParser {
 public:
  struct Options {
    ChatOutputForms forms;           // REQUIRES: Fit(forms)
    const ToolSet* tools = nullptr;  // never null; outlives the parser
    bool parallel = true;            // false: the output is done after a call
    std::string_view prompt;         // its end decides where the output begins; read by the constructor only
    size_t max_call_bytes = kMaxCallBytes;
  };
  // sink outlives this.
  ChatOutputParser(const Options& options, ChatOutputSink* sink);

  void Push(std::string_view text) {
    if (!text.empty()) first_->Push(text);
  }
  void Finish() { first_->Finish(); }
  bool done() const { return first_->done(); }

 private:
  std::unique_ptr<OutputStage> answer_;
  std::unique_ptr<OutputStage> whole_;  // reasoning before the answer; null: there is none
  OutputStage* first_;
};

}  // namespace dunlin::text
