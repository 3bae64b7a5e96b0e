// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/fronts/openai/choices.h"
#include "server/fronts/openai/logprobs_text.h"

namespace dunlin::server {

class CompletionsTranslator final : public ChoicesTranslator {
 public:
  explicit CompletionsTranslator(const ResponseFacts& facts)
      : ChoicesTranslator(facts, {"cmpl-", "text_completion", "text_completion"}) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;

 private:
  void AppendDelta(const OutputChunk& chunk, Choice* choice, std::string* out) override;
  void GatherLogprobs(const OutputChunk& chunk, Choice* choice) override;
  void AppendChoice(int32_t index, const Choice& choice, std::string* out) override;
  bool prompt_logprobs_on_top() const override { return false; }
  // Adds the prompt's tokens before the first of the output.
  void AddEchoScores(const Choice& choice);

  // Of a whole response with echo and logprobs, whose lists begin with the prompt's tokens. The first one has no score;
  // its text is what the echo has before the others' bytes.
  bool scores_echo_ = false;
  size_t prompt_bytes_ = 0;  // of a prompt that came as text, and whole
  std::vector<TokenLogprobs> echo_scores_;
  std::map<int32_t, CompletionLogprobs> logprobs_;  // by choice
};

// The fields of the route.
std::span<const GenerationTable> CompletionsFields();

}  // namespace dunlin::server
