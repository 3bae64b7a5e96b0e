// SPDX-License-Identifier: Apache-2.0
// POST /v1/chat/completions. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "server/fronts/openai/choices.h"

namespace dunlin::server {

class ChatCompletionsTranslator final : public ChoicesTranslator {
 public:
  explicit ChatCompletionsTranslator(const ResponseFacts& facts)
      : ChoicesTranslator(facts, {"chatcmpl-", "chat.completion.chunk", "chat.completion"}) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;

 private:
  void AppendDelta(const OutputChunk& chunk, Choice* choice, std::string* out) override;
  void GatherLogprobs(const OutputChunk& chunk, Choice* choice) override;
  void AppendChoice(int32_t index, const Choice& choice, std::string* out) override;
  bool prompt_logprobs_on_top() const override { return true; }
};

// The fields of the route.
std::span<const GenerationTable> ChatCompletionsFields();

}  // namespace dunlin::server
