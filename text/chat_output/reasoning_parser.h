// SPDX-License-Identifier: Apache-2.0
// Tells what a model thinks, between two tags at the start of its output, from its answer. Line breaks next to the tags
// are part of them. A call may end the reasoning too. Reasoning that never ends is all reasoning.
// Owner: ChatOutputParser. Thread rule: one thread at a time.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/chat_output/chat_output_sink.h"
#include "text/chat_output/output_stage.h"
#include "text/chat_output/reasoning_formats.h"

namespace dunlin::text {

class ReasoningParser final : public OutputStage {
 public:
  // inside: the output begins in the reasoning. answer: gets what follows it. The pointers outlive this.
  ReasoningParser(const ReasoningFormat& format, bool inside, OutputStage* answer, ChatOutputSink* sink);

  void Push(std::string_view text) override;
  void Finish() override;
  bool done() const override { return answer_->done(); }

 private:
  enum class State : uint8_t { kStart, kAfterOpen, kInside, kAfterClose, kAnswer };
  // Takes from the beginning of `rest`, which is not empty, and returns how much. 0 without a change of the state: the
  // next piece of text decides.
  size_t Take(std::string_view rest);
  size_t TakeStart(std::string_view rest);
  size_t TakeInside(std::string_view rest);

  const ReasoningFormat& format_;
  const std::array<std::string, 3> closing_;   // with the line breaks before it
  std::vector<std::string_view> close_marks_;  // of closing_, then the calls that end the reasoning
  OutputStage* const answer_;
  ChatOutputSink* const sink_;
  State state_;
  std::string pending_;
};

}  // namespace dunlin::text
