// SPDX-License-Identifier: Apache-2.0
// An output that is a sequence of messages. gpt-oss's are on channels: <|channel|>analysis is reasoning,
// <|channel|>final and commentary without a recipient are text, to=functions.NAME is a call of NAME whose arguments are
// the message. Muse Glimmer's go to recipients: to=self is reasoning, to=user is text, any other recipient is a tool
// whose calls are the message. Other messages are text, as the model wrote them. Owner: ChatOutputParser. Thread rule:
// one thread at a time. Source: OpenAI, "OpenAI harmony response format"; Muse Glimmer's chat template.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "text/chat_output/call_buffer.h"
#include "text/chat_output/json_scanner.h"
#include "text/chat_output/output_frame.h"
#include "text/chat_output/output_stage.h"
#include "text/chat_output/tool_call_parser.h"

namespace dunlin::text {

class HarmonyParser final : public OutputStage {
 public:
  struct Options {
    OutputFrame frame = OutputFrame::kChannels;  // not kNone
    bool reasoning = true;                       // else it is text, as the model wrote it
    const ToolFormat* calls = nullptr;           // null: the same of calls
    bool parallel = true;                        // whether the output goes on after a call
    std::string_view prompt;                     // whose end may be a part of the first message
    size_t max_call_bytes = kMaxCallBytes;
  };
  // The pointers outlive this.
  HarmonyParser(const Options& options, const ToolSet* tools, ChatOutputSink* sink);

  void Push(std::string_view text) override;
  void Finish() override;
  bool done() const override { return tagged_.done() || (!parallel_ && buffer_.num_calls() > 0); }

 private:
  // kCall: one call's arguments. kCalls: a text with calls in it.
  enum class State : uint8_t { kHeader, kText, kReasoning, kRaw, kCall, kCallEnd, kCalls };
  // Each takes from the beginning of `rest`, which is not empty, and returns how much. 0 without a change of the state:
  // the next piece of text decides.
  size_t Take(std::string_view rest);
  size_t TakeHeader(std::string_view rest);
  size_t TakeContent(std::string_view rest);
  size_t TakeCall(std::string_view rest);
  size_t TakeCallEnd(std::string_view rest);
  // Whether a header begins at `rest`, behind a message that the model did not end. nullopt: the next piece of text
  // decides.
  std::optional<bool> IsHeaderWithoutStart(std::string_view rest) const;
  void Content(std::string_view content);
  // The message behind a header: up to <|message|>, without it.
  State StateOf(std::string_view header) const;

  const OutputFrame frame_;
  const bool reasoning_;
  const bool calls_;
  const bool parallel_;
  ChatOutputSink* const sink_;
  CallBuffer buffer_;
  ToolCallParser tagged_;  // reads what is kCalls
  State state_ = State::kHeader;
  std::string prompt_header_;  // the part of the first header that the prompt has
  bool first_ = true;          // no header is complete yet
  JsonScanner arguments_;
  bool begun_ = false;  // the arguments' '{' is there
  std::string pending_;
};

}  // namespace dunlin::text
