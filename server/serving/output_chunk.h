// SPDX-License-Identifier: Apache-2.0
// One chunk of a generation's output, as the serving core passes it to a front end. Reused for every chunk of a
// generation: Clear keeps the memory. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/types.h"

namespace dunlin::server {

// Log-probabilities of consecutive tokens, each with those of the most likely alternatives.
class TokenLogprobs {
 public:
  struct Entry {
    engine::TokenId token_id;
    float logprob;
    std::span<const engine::TopLogprob> top;  // most likely first
  };
  void Add(engine::TokenId token_id, float logprob, std::span<const engine::TopLogprob> top) {
    tokens_.push_back({token_id, logprob, top_.size(), top.size()});
    top_.insert(top_.end(), top.begin(), top.end());
  }
  void Clear() {
    tokens_.clear();
    top_.clear();
  }
  size_t size() const { return tokens_.size(); }
  bool empty() const { return tokens_.empty(); }
  // Valid until the next Add or Clear.
  Entry operator[](size_t i) const {
    const Token& token = tokens_[i];
    return {token.id, token.logprob, std::span(top_).subspan(token.first_top, token.num_top)};
  }

 private:
  struct Token {
    engine::TokenId id;
    float logprob;
    size_t first_top;
    size_t num_top;
  };
  std::vector<Token> tokens_;
  std::vector<engine::TopLogprob> top_;  // of all tokens, one after another
};

struct Usage {
  int32_t prompt_tokens = 0;
  int32_t cached_tokens = 0;  // of the prompt, found in the prefix cache
  int32_t completion_tokens = 0;
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

// The finish of an output that ended OK.
struct OutputFinish {
  engine::FinishReason reason = engine::FinishReason::kStop;  // kStop or kLength
  Usage usage;  // completion_tokens: those sent, which a stop string makes fewer than those generated
  Timings timings;
  std::optional<engine::TokenId> stop_token_id;  // the token that ended it, if one did
  std::optional<std::string> stop_string;        // the stop string that ended it, if one did
};

struct OutputChunk {
  // Only in the first chunk of a generation: the request id and the execution profile.
  std::string request_id;
  std::optional<engine::ExecutionProfile> profile;

  int32_t index = 0;                       // which of the n outputs
  std::vector<engine::TokenId> token_ids;  // since the output's last chunk
  std::string text;                        // of those tokens; whole UTF-8 characters
  TokenLogprobs logprobs;                  // one entry per token, if requested
  TokenLogprobs prompt_logprobs;           // of prompt tokens 1.., before any token of output 0
  std::optional<OutputFinish> finish;      // only in the last chunk of the output

  void Clear() {
    request_id.clear();
    profile.reset();
    token_ids.clear();
    text.clear();
    logprobs.Clear();
    prompt_logprobs.Clear();
    finish.reset();
  }
};

}  // namespace dunlin::server
