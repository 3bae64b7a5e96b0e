// SPDX-License-Identifier: Apache-2.0
// Reassembles a streamed completion and renders the object that `dunlin generate --json` prints.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "dunlin/v1/generation.pb.h"

namespace dunlin::server {

struct CompletionOutput {
  std::string text;
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

  // {text, token_ids, logprobs, prompt_logprobs, execution, finish, request_id, prompt if set} of output 0; with
  // several outputs also "outputs", a list of {text, token_ids, logprobs, finish}.
  nlohmann::ordered_json ToJson() const;
};

}  // namespace dunlin::server
