// SPDX-License-Identifier: Apache-2.0
// Reassembles a streamed completion and renders the object that `dunlin generate --json` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dunlin/v1/generation.pb.h"

namespace dunlin::cli {

struct CompletionOutput {
  std::string text;
  std::string reasoning;
  std::vector<v1::ToolCall> tool_calls;  // of an output that was cut the last one's arguments may be incomplete
  std::vector<int32_t> token_ids;
  std::vector<v1::TokenLogprob> logprobs;
  v1::Finish finish;
};

struct Completion {
  v1::Execution execution;
  std::string request_id;
  std::vector<v1::TokenLogprob> prompt_logprobs;
  std::vector<CompletionOutput> outputs{1};  // by index
  std::optional<std::string> prompt;         // the text that the model read

  void Add(const v1::GenerateResponse& response);

  // {text, reasoning, tool_calls, token_ids, logprobs, finish, prompt_logprobs, execution, request_id, prompt if set}
  // of output 0; with several outputs also "outputs", a list of {text, reasoning, tool_calls, token_ids, logprobs,
  // finish}.
  nlohmann::ordered_json ToJson() const;
};

// {"id", "name", "arguments"}; arguments are the text that the model wrote, a JSON object unless it was cut.
nlohmann::ordered_json ToolCallJson(const v1::ToolCall& call);

// "stop", "length", "tool_calls", "constraint".
std::string FinishWord(v1::FinishReason reason);

// What to tell whoever reads a text that need not match its constraint, or ""; `constrained`: by structured output.
std::string IncompleteNote(const v1::Finish& finish, bool constrained);

// Tokens after the first one, by the time that they took; 0 without such tokens.
double DecodeTokensPerSecond(const v1::Finish& finish);

}  // namespace dunlin::cli
