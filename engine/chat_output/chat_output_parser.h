// SPDX-License-Identifier: Apache-2.0
// One output of a chat: reasoning, text and tool calls, told apart while they are decoded. The pieces in which the text
// comes never change what comes out, but for where it is divided.
// Owner: the output of a request. Thread rule: one thread at a time.
#pragma once

#include <memory>
#include <string_view>

#include "engine/chat_output/chat_output_sink.h"
#include "engine/chat_output/output_stage.h"
#include "engine/chat_output/reasoning_formats.h"
#include "engine/chat_output/tool_formats.h"
#include "engine/chat_output/tool_set.h"

namespace dunlin::engine {

// What of a chat's output is told apart. Two forms are both "gpt_oss" or neither is, unless one is null
// (CheckFormats).
struct ChatOutputForms {
  const ReasoningFormat* reasoning = nullptr;  // null: none is
  const ToolFormat* calls = nullptr;           // null: none are
};

// Whether the two can read one output.
bool Fit(const ChatOutputForms& forms);

class ChatOutputParser {
 public:
  // prompt: its end decides where the output begins; read here only. parallel: false: the output is done after a call.
  // The pointers outlive this. REQUIRES: Fit(forms).
  ChatOutputParser(const ChatOutputForms& forms, const ToolSet* tools, bool parallel, std::string_view prompt,
                   ChatOutputSink* sink);

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

}  // namespace dunlin::engine
