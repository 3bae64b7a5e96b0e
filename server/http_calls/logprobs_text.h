// SPDX-License-Identifier: Apache-2.0
// Log-probabilities in the three forms that clients know. All append elements of lists, with a comma before each
// element but the first of an empty *out. Pure, any thread.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/serving/output/output_chunk.h"

namespace dunlin::server {

// Chats and responses: {"token","logprob","bytes","top_logprobs":[...]}, ...
void AppendChatLogprobs(const TokenLogprobs& logprobs, std::string* out);

// vLLM's prompt_logprobs: `,{"<token id>":{"logprob","rank","decoded_token"},...}` for each token, always with a comma,
// because null for prompt token 0 comes first.
void AppendPromptLogprobs(const TokenLogprobs& logprobs, std::string* out);

// The parallel lists of a completion. A token without bytes, as those of a model without a tokenizer, has the name
// "token_id:5", as vLLM writes it where a client asks for ids.
class CompletionLogprobs {
 public:
  // The first prompt token of an echo, which has no log-probability.
  void AddUnscored(std::string_view bytes);
  void Add(const TokenLogprobs& logprobs);
  // {"tokens":[...],"token_logprobs":[...],"top_logprobs":[...],"text_offset":[...]}, and starts new lists. Offsets
  // count characters and go on.
  void Take(std::string* out);

 private:
  void AddToken(std::string_view name, std::string_view bytes);
  void AppendTop(const TokenLogprobs& logprobs, std::span<const TokenLogprobs::Scored> top);

  std::string tokens_;
  std::string token_logprobs_;
  std::string top_logprobs_;
  std::string text_offset_;
  size_t characters_ = 0;  // of all tokens so far
};

// The text of a token: as it is where it is UTF-8, else "bytes:\xe2\x80", as OpenAI writes a part of a character.
std::string TokenText(std::string_view bytes);

}  // namespace dunlin::server
