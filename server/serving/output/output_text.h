// SPDX-License-Identifier: Apache-2.0
// Turns the tokens of one output into chunks: ids, log-probabilities, text, stop strings.
// Token ids and log-probabilities are passed through, up to and including the token that completes a stop string; text
// that could still become part of a stop string is held back. A stop token (end of sequence included) adds no text
// unless include_stop is set. Stop strings are sought in the text that the model writes; the text of a chat is divided
// into reasoning, tool calls and the rest behind that. Thread rule: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/request/types.h"
#include "server/serving/output/chat_output.h"
#include "server/serving/output/output_chunk.h"
#include "server/serving/output/token_ring.h"
#include "text/stop_matcher.h"
#include "text/stream_decoder.h"
#include "text/tokenizer.h"

namespace dunlin::server {

class OutputText {
 public:
  struct Options {
    const text::Tokenizer* tokenizer = nullptr;    // null: no text
    std::span<const engine::TokenId> prompt_tail;  // the last tokens of the prompt; read by Create only
    std::vector<std::string> stop_strings;
    bool include_stop = false;
    bool keep_special_tokens = false;
    bool logprobs = false;
    const text::Tokenizer* token_bytes = nullptr;  // for log-probabilities; null: they carry no bytes
    bool echo = false;                             // prompt_tail is the whole prompt, and its text comes first
    std::vector<engine::TokenId> stop_token_ids;   // all stop tokens, including end of sequence
    std::optional<ChatOutput::Options> chat;       // of a chat whose output is divided; needs a tokenizer
  };
  static absl::StatusOr<OutputText> Create(const Options& options);
  // Token ids only, without text.
  OutputText() = default;

  // Appends up to max_bytes, >= 4, of the prompt's text, if it is echoed and not yet all taken. True: there is more.
  // Before the first Add.
  bool TakeEcho(size_t max_bytes, OutputChunk* chunk);
  bool has_echo() const { return !echo_.empty(); }
  // Appends one token to `chunk`. REQUIRES: !stopped() and not finished.
  absl::Status Add(const TokenRing::Token& token, std::span<const engine::TopLogprob> top, OutputChunk* chunk);
  // Ends the output: appends the text that was held back, which may still complete a stop string. Called once.
  absl::Status Finish(OutputChunk* chunk);

  // A stop string has matched, or the one tool call that is wanted is complete; no further token may be added.
  bool stopped() const { return matched_stop_.has_value() || (chat_ != nullptr && chat_->done()); }
  // The stop string that has matched; null: none.
  const std::string* matched_stop() const {
    return matched_stop_.has_value() ? &stop_strings_[static_cast<size_t>(*matched_stop_)] : nullptr;
  }
  bool has_tool_calls() const { return chat_ != nullptr && chat_->has_tool_calls(); }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  void AppendText(const std::string& text, OutputChunk* chunk);
  // Text that no stop string can be a part of.
  void AppendCertain(std::string_view text, OutputChunk* chunk);
  // Whether a token is dropped although the decoder would keep it.
  bool Dropped(engine::TokenId id) const;

  std::optional<text::StreamDecoder> decoder_;  // none: no text
  std::optional<text::StopMatcher> matcher_;    // with decoder_
  std::vector<std::string> stop_strings_;
  std::vector<engine::TokenId> stop_token_ids_;  // sorted
  bool include_stop_ = false;
  // Of a chat: the decoder keeps special tokens, because the parser needs some; the others are dropped before it.
  const text::Tokenizer* drop_special_of_ = nullptr;  // null: none is dropped
  std::vector<engine::TokenId> kept_special_;         // sorted
  std::unique_ptr<ChatOutput> chat_;                  // null: all is text
  bool logprobs_ = false;
  const text::Tokenizer* token_bytes_ = nullptr;
  std::string echo_;       // the prompt's text
  size_t echo_taken_ = 0;  // bytes
  std::optional<int> matched_stop_;
  int32_t num_tokens_ = 0;
};

}  // namespace dunlin::server
