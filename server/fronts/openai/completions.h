// SPDX-License-Identifier: Apache-2.0
// POST /v1/completions. Owner: the call. Thread rule: one function at a time.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/fronts/openai/choices.h"
#include "server/http_calls/logprobs_text.h"

namespace dunlin::server {

class CompletionsTranslator final : public ChoicesTranslator {
 public:
  explicit CompletionsTranslator(const ResponseFacts& facts)
      : ChoicesTranslator(facts, {"cmpl-", "text_completion", "text_completion"}) {}

  absl::Status Read(std::string_view body, ClientRequest* request) override;
  std::vector<ClientPrompt> TakeFurtherPrompts() override { return std::exchange(further_prompts_, {}); }

 private:
  void AppendDelta(const OutputChunk& chunk, Choice* choice, std::string* out) override;
  void GatherLogprobs(const OutputChunk& chunk, Choice* choice) override;
  void AppendChoice(int32_t index, const Choice& choice, std::string* out) override;
  bool prompt_logprobs_on_top() const override { return false; }
  // The scores of a prompt, before they are among those of its output. The first token has none; its text is what the
  // echo has before the others' bytes.
  struct Echo {
    size_t prompt_bytes = 0;  // of a prompt that came as text, and whole
    std::vector<TokenLogprobs> scores;
    bool added = false;
  };
  static Echo EchoOf(const ClientPrompt& prompt, bool whole);
  Echo& echo(int32_t index) { return echoes_[static_cast<size_t>(index)]; }
  // Adds the prompt's tokens before the first of the output, once.
  void AddEchoScores(int32_t index, const Choice& choice);

  std::vector<ClientPrompt> further_prompts_;
  std::vector<Echo> echoes_;  // by prompt, which has one choice; of echo with logprobs, else empty
  std::map<int32_t, CompletionLogprobs> logprobs_;  // by choice
};

// The fields of the route.
std::span<const GenerationTable> CompletionsFields();

}  // namespace dunlin::server
