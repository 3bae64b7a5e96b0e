// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/output_blocks.h"

#include <span>

#include "server/http_calls/logprobs_text.h"

namespace dunlin::server {

using Kind = OutputBlock::Kind;

void OutputBlocks::Open(Kind kind, const ToolCallDelta& call, Listener* listener) {
  Close(listener);
  OutputBlock& block = blocks_.emplace_back();
  block.kind = kind;
  block.call_id = call.id;
  block.name = call.name;
  open_ = true;
  if (listener != nullptr) listener->OnOpen(blocks_.size() - 1, blocks_.back());
}

void OutputBlocks::Close(Listener* listener) {
  if (!open_) return;
  open_ = false;
  if (listener != nullptr) listener->OnClose(blocks_.size() - 1, blocks_.back());
}

void OutputBlocks::Extend(Kind kind, std::string_view delta, std::string_view logprobs, Listener* listener) {
  if (!open_ || blocks_.back().kind != kind) Open(kind, {}, listener);
  OutputBlock& block = blocks_.back();
  block.text.append(delta);
  if (!logprobs.empty() && !block.logprobs.empty()) block.logprobs.push_back(',');
  block.logprobs.append(logprobs);
  if (listener != nullptr) listener->OnDelta(blocks_.size() - 1, block, delta, logprobs);
}

void OutputBlocks::AddEmptyText(Listener* listener) {
  Open(Kind::kText, {}, listener);
}

bool OutputBlocks::Continues(const ToolCallDelta& delta) const {
  return open_ && blocks_.back().kind == Kind::kToolCall && delta.tool_index == tool_index_;
}

void OutputBlocks::AddCall(const ToolCallDelta& delta, Listener* listener) {
  if (!Continues(delta)) Open(Kind::kToolCall, delta, listener);
  tool_index_ = delta.tool_index;
  if (!delta.arguments.empty()) Extend(Kind::kToolCall, delta.arguments, {}, listener);
}

void OutputBlocks::Add(const OutputChunk& chunk, Listener* listener) {
  std::span<const ToolCallDelta> calls = chunk.tool_calls;
  for (; !calls.empty() && Continues(calls.front()); calls = calls.subspan(1)) AddCall(calls.front(), listener);
  if (!chunk.reasoning.empty()) Extend(Kind::kReasoning, chunk.reasoning, {}, listener);
  // Tokens whose text is held back are scored with the next text.
  if (chunk.reasoning.empty()) AppendChatLogprobs(chunk.logprobs, &logprobs_);
  if (!chunk.text.empty()) {
    Extend(Kind::kText, chunk.text, logprobs_, listener);
    logprobs_.clear();
  }
  for (const ToolCallDelta& delta : calls) AddCall(delta, listener);
}

}  // namespace dunlin::server
