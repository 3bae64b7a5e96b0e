// SPDX-License-Identifier: Apache-2.0
// Divides the text of one output of a chat into reasoning, tool calls and the rest, in its chunks, and gives the calls
// their ids.
// Owner: OutputText. Thread rule: one thread at a time.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request/types.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/record/entropy.h"
#include "text/chat_output/chat_output_parser.h"

namespace dunlin::server {

class ChatOutput final : private text::ChatOutputSink {
 public:
  struct Options {
    text::ChatOutputForms forms;
    std::shared_ptr<const text::ToolSet> tools;  // never null
    bool parallel = true;                        // false: the output ends after its first call
    std::string prompt_end;                      // the last part of the prompt's text
    size_t max_call_bytes = text::kMaxCallBytes;
    std::vector<engine::TokenId> special_tokens;  // that the forms need, ascending
    std::string (*draw_letters)(size_t count) = &DrawLetters;
  };
  explicit ChatOutput(const Options& options);

  // Appends to *chunk what is certain after `text`, or at the end.
  void Push(std::string_view text, OutputChunk* chunk);
  void Finish(OutputChunk* chunk);
  // The one call that is wanted is complete.
  bool done() const { return parser_.done(); }
  bool has_tool_calls() const { return num_complete_ > 0; }

 private:
  void OnText(std::string_view text) override { chunk_->text.append(text); }
  void OnReasoning(std::string_view text) override { chunk_->reasoning.append(text); }
  void OnCall(std::string_view name, std::string_view id) override;
  void OnArguments(std::string_view json) override;
  void OnCallEnd(std::string_view) override { ++num_complete_; }
  void OnCallBroken() override {}
  void OnMarkup(std::string_view) override {}

  const std::shared_ptr<const text::ToolSet> tools_;
  const bool short_ids_;
  std::string (*const draw_letters_)(size_t count);
  text::ChatOutputParser parser_;
  OutputChunk* chunk_ = nullptr;  // during a call of Push or Finish
  int32_t num_calls_ = 0;         // those that broke included
  int32_t num_complete_ = 0;
};

}  // namespace dunlin::server
