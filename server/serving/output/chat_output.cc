// SPDX-License-Identifier: Apache-2.0
#include "server/serving/output/chat_output.h"

namespace dunlin::server {
namespace {

constexpr size_t kIdLetters = 24;
constexpr size_t kShortIdLetters = 9;

}  // namespace

ChatOutput::ChatOutput(const Options& options)
    : tools_(options.tools),
      short_ids_(options.forms.calls != nullptr && options.forms.calls->short_ids),
      draw_letters_(options.draw_letters),
      parser_({.forms = options.forms,
               .tools = options.tools.get(),
               .parallel = options.parallel,
               .prompt = options.prompt_end,
               .max_call_bytes = options.max_call_bytes},
              this) {}

void ChatOutput::Push(std::string_view text, OutputChunk* chunk) {
  chunk_ = chunk;
  parser_.Push(text);
  chunk_ = nullptr;
}

void ChatOutput::Finish(OutputChunk* chunk) {
  chunk_ = chunk;
  parser_.Finish();
  chunk_ = nullptr;
}

void ChatOutput::OnCall(std::string_view name, std::string_view id) {
  ToolCallDelta& delta = chunk_->tool_calls.emplace_back();
  delta.tool_index = num_calls_++;
  if (!id.empty()) {
    delta.id = id;
  } else {
    delta.id = short_ids_ ? draw_letters_(kShortIdLetters) : "call_" + draw_letters_(kIdLetters);
  }
  delta.name = name;
}

void ChatOutput::OnArguments(std::string_view json) {
  const int32_t index = num_calls_ - 1;
  if (chunk_->tool_calls.empty() || chunk_->tool_calls.back().tool_index != index) {
    chunk_->tool_calls.emplace_back().tool_index = index;
  }
  chunk_->tool_calls.back().arguments.append(json);
}

}  // namespace dunlin::server
