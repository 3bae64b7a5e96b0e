// Turns the tokens of one output into response fields: ids, log-probabilities, text, stop strings.
// token_ids and logprobs go out as the engine made them, up to and with the token that completed a stop string; the
// text is held back where it could still become a stop string. A stop token (end of sequence included) adds no text
// unless include_stop. Thread rule: one thread at a time (the stream's text pool task).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "dunlin/v1/generation.pb.h"
#include "engine/text/stop_matcher.h"
#include "engine/text/stream_decoder.h"
#include "engine/text/tokenizer.h"
#include "engine/types.h"
#include "server/grpc/token_ring.h"

namespace dunlin::server {

class OutputText {
 public:
  struct Options {
    const engine::Tokenizer* tokenizer = nullptr;  // null: no text
    std::span<const engine::TokenId> prompt_tail;  // the last tokens of the prompt; read by Create only
    std::vector<std::string> stop_strings;
    bool include_stop = false;
    bool keep_special_tokens = false;
    bool logprobs = false;
    std::vector<engine::TokenId> stop_token_ids;  // that end the sequence; end-of-sequence ones too
  };
  static absl::StatusOr<OutputText> Create(const Options& options);
  // Ids alone.
  OutputText() = default;

  // Appends one token to `response`. REQUIRES: !stopped() and not finished.
  absl::Status Add(const TokenRing::Token& token, std::span<const engine::TopLogprob> top,
                   v1::GenerateResponse* response);
  // The output is over: appends the text that was held back, which may still complete a stop string. Once.
  absl::Status Finish(v1::GenerateResponse* response);

  // A stop string has matched; no token is to be added any more.
  bool stopped() const { return matched_stop_.has_value(); }
  // REQUIRES: stopped().
  const std::string& matched_stop() const { return stop_strings_[static_cast<size_t>(*matched_stop_)]; }
  int32_t num_tokens() const { return num_tokens_; }

 private:
  void AppendText(const std::string& text, v1::GenerateResponse* response);

  std::optional<engine::StreamDecoder> decoder_;  // none: no text
  std::optional<engine::StopMatcher> matcher_;    // with decoder_
  std::vector<std::string> stop_strings_;
  std::vector<engine::TokenId> stop_token_ids_;  // sorted
  bool include_stop_ = false;
  bool logprobs_ = false;
  std::optional<int> matched_stop_;
  int32_t num_tokens_ = 0;
};

// One TokenLogprob of a generated or a scored prompt token.
void LogprobToWire(const TokenRing::Token& token, std::span<const engine::TopLogprob> top, v1::TokenLogprob* wire);

}  // namespace dunlin::server
