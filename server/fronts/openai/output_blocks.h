// SPDX-License-Identifier: Apache-2.0
// The output of a generation as consecutive blocks: reasoning, text, tool calls. Responses and Anthropic's messages
// both consist of such blocks, each opened, extended and closed by events of its own. Owner: the call's translator.
// Thread rule: one function at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "server/serving/output/output_chunk.h"

namespace dunlin::server {

struct OutputBlock {
  enum class Kind : uint8_t { kReasoning, kText, kToolCall };
  Kind kind = Kind::kText;
  std::string text;  // so far; of a tool call its arguments
  std::string call_id;
  std::string name;
  std::string logprobs;  // of a text: elements of a list in JSON
};

class OutputBlocks {
 public:
  // Receives what happens to a block. index: of the block, from 0.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void OnOpen(size_t index, const OutputBlock& block) = 0;
    // logprobs: elements of a list in JSON, of the tokens that came with the delta; "": none.
    virtual void OnDelta(size_t index, const OutputBlock& block, std::string_view delta, std::string_view logprobs) = 0;
    virtual void OnClose(size_t index, const OutputBlock& block) = 0;
  };

  // Of a chunk, what continues an open call comes first, then reasoning, text and the calls that begin. listener: may
  // be null.
  void Add(const OutputChunk& chunk, Listener* listener);
  // For an output without any block, where a client expects one.
  void AddEmptyText(Listener* listener);
  // Closes the last block.
  void Close(Listener* listener);

  const std::vector<OutputBlock>& blocks() const { return blocks_; }

 private:
  void Extend(OutputBlock::Kind kind, std::string_view delta, std::string_view logprobs, Listener* listener);
  void Open(OutputBlock::Kind kind, const ToolCallDelta& call, Listener* listener);
  bool Continues(const ToolCallDelta& delta) const;
  void AddCall(const ToolCallDelta& delta, Listener* listener);

  std::vector<OutputBlock> blocks_;
  bool open_ = false;
  int32_t tool_index_ = -1;  // of the last tool call
  std::string logprobs_;     // of tokens whose text has not come
};

}  // namespace dunlin::server
