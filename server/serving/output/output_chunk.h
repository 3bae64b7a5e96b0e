// SPDX-License-Identifier: Apache-2.0
// One chunk of a generation's output, as the serving core passes it to a front end. Reused for every chunk of a
// generation: Clear keeps the memory. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/request/types.h"
#include "server/serving/output/token_ring.h"
#include "text/tokenizer.h"

namespace dunlin::server {

// Log-probabilities of consecutive tokens, each with those of the most likely alternatives.
class TokenLogprobs {
 public:
  struct Scored {
    engine::TokenId token_id;
    float logprob;
    size_t first_byte;
    size_t num_bytes;
  };
  struct Entry {
    engine::TokenId token_id;
    float logprob;
    int32_t rank;                 // TokenOutput::rank
    std::string_view bytes;       // Tokenizer::TokenBytes; empty without a tokenizer, or a token with this id
    std::span<const Scored> top;  // most likely first
  };
  // tokenizer: may be null.
  void Add(const TokenRing::Token& token, std::span<const engine::TopLogprob> top, const text::Tokenizer* tokenizer);
  void Clear();
  size_t size() const { return tokens_.size(); }
  bool empty() const { return tokens_.empty(); }
  // Valid until the next Add or Clear.
  Entry operator[](size_t i) const {
    const Token& token = tokens_[i];
    return {token.scored.token_id, token.scored.logprob, token.rank, BytesOf(token.scored),
            std::span(top_).subspan(token.first_top, token.num_top)};
  }
  // Of one of an entry's top.
  std::string_view BytesOf(const Scored& scored) const {
    return std::string_view(bytes_).substr(scored.first_byte, scored.num_bytes);
  }

 private:
  struct Token {
    Scored scored;
    int32_t rank;
    size_t first_top;
    size_t num_top;
  };
  Scored Score(engine::TokenId token_id, float logprob, const text::Tokenizer* tokenizer);

  std::vector<Token> tokens_;
  std::vector<Scored> top_;  // of all tokens, one after another
  std::string bytes_;        // of all tokens and of all of top_
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  int32_t completion_tokens = 0;
  int32_t drafted_tokens = 0;   // guessed and verified
  int32_t accepted_tokens = 0;  // of these, part of the output
};

// Milliseconds since the call's arrival; 0 for events that did not happen.
struct Timings {
  double queue_ms = 0.0;  // until first scheduled
  double ttft_ms = 0.0;   // until the first token
  double total_ms = 0.0;  // until finished
};

// 0 if either time is unknown.
inline double MillisecondsBetween(engine::TimeNs from, engine::TimeNs to) {
  return from == 0 || to == 0 ? 0.0 : static_cast<double>(to - from) / 1e6;
}

// A part of a tool call.
struct ToolCallDelta {
  int32_t tool_index = 0;  // which call of the output
  std::string id;          // in the first delta of a call only
  std::string name;        // in the first delta of a call only
  std::string arguments;   // since the call's last delta; together a JSON object
};

// Deltas of one call become one whole call. calls: by tool_index.
void GatherToolCalls(const std::vector<ToolCallDelta>& deltas, std::vector<ToolCallDelta>* calls);

// The finish of an output that ended OK.
struct OutputFinish {
  engine::FinishReason reason = engine::FinishReason::kStop;  // kStop, kLength or kConstraint
  bool has_tool_calls = false;                                // at least one
  Usage usage;  // completion_tokens: those sent, which a stop string makes fewer than those generated
  Timings timings;
  std::optional<engine::TokenId> stop_token_id;  // the token that ended it, if one did
  std::optional<std::string> stop_string;        // the stop string that ended it, if one did
  std::string constraint_error;                  // of kConstraint: the bound that it met; "": no token continued it
};

struct OutputChunk {
  // Only in the first chunk of a generation: the request id, the execution profile, what the prompt is, and max_tokens
  // where it is less than was asked for.
  std::string request_id;
  std::optional<engine::ExecutionProfile> profile;
  std::string adapter;    // that runs; "": none
  int32_t num_ranks = 1;  // of the model
  int32_t num_prompt_tokens = 0;
  std::optional<int32_t> clamped_max_tokens;
  std::vector<engine::TokenId> prompt_token_ids;  // if requested

  int32_t index = 0;                       // which of the n outputs
  std::vector<engine::TokenId> token_ids;  // since the output's last chunk
  std::string text;                        // of those tokens; whole UTF-8 characters
  std::string reasoning;                   // of a chat: what the model thinks before it answers; not in text
  std::vector<ToolCallDelta> tool_calls;   // of a chat with tools; not in text
  TokenLogprobs logprobs;                  // one entry per token, if requested
  TokenLogprobs prompt_logprobs;           // of prompt tokens 1.., before any token of output 0
  std::optional<OutputFinish> finish;      // only in the last chunk of the output

  void Clear() {
    request_id.clear();
    profile.reset();
    adapter.clear();
    num_prompt_tokens = 0;
    clamped_max_tokens.reset();
    prompt_token_ids.clear();
    token_ids.clear();
    text.clear();
    reasoning.clear();
    tool_calls.clear();
    logprobs.Clear();
    prompt_logprobs.Clear();
    finish.reset();
  }
};

}  // namespace dunlin::server
