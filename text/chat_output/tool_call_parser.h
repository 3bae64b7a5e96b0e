// SPDX-License-Identifier: Apache-2.0
// Tells tool calls, and the tags around an answer, from the text around them, for every form of calls but gpt-oss's.
// Held back is only what may still be a marker: at most a marker's bytes, or white space before or behind a call. Line
// breaks next to an answer's tags are part of them.
// Owner: ChatOutputParser. Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_output/call_buffer.h"
#include "text/chat_output/call_reader.h"
#include "text/chat_output/output_frame.h"
#include "text/chat_output/output_stage.h"
#include "text/chat_output/tool_formats.h"

namespace dunlin::text {

class ToolCallParser final : public OutputStage {
 public:
  struct Options {
    const ToolFormat* format = nullptr;  // null: all is text
    const ToolSet* tools = nullptr;      // never null
    bool parallel = true;                // whether the output goes on after a call
    size_t max_call_bytes = kMaxCallBytes;
    AnswerTags tags = {};
  };
  // The pointers outlive this.
  ToolCallParser(const Options& options, ChatOutputSink* sink);

  void Push(std::string_view text) override;
  void Finish() override;
  bool done() const override { return !parallel_ && buffer_.num_calls() > 0; }

 private:
  enum class Tagged : uint8_t { kBefore, kOpened, kInside, kAfter };  // the tags of an answer; kAfter: none any more
  // Each takes from the beginning of `rest` and returns how much; nullopt: the next piece of text decides.
  std::optional<size_t> TakeCalls(std::string_view rest);
  std::optional<size_t> TakeAtBoundary(std::string_view rest);
  std::optional<size_t> TakeText(std::string_view rest);
  // The tag that may follow `space` bytes of white space; 0: none does.
  std::optional<size_t> TakeTag(std::string_view rest, size_t space);
  // Calls begin behind `raw`.
  void Begin(std::string_view raw, size_t opener);

  const ToolFormat* const format_;
  const AnswerTags tags_;
  const std::array<std::string, 3> closing_;  // with the line breaks before it
  std::vector<std::string_view> marks_;       // the openers of calls, then closing_
  Tagged tagged_;
  const ToolSet* const tools_;
  const bool parallel_;
  ChatOutputSink* const sink_;
  CallBuffer buffer_;
  std::unique_ptr<CallReader> reader_;  // while in calls
  int calls_before_ = 0;                // the reader
  bool boundary_ = true;                // at the start of the output, or behind a call: white space may be markup
  std::string pending_;                 // held back; what is read of a call is in buffer_
};

}  // namespace dunlin::text
