// SPDX-License-Identifier: Apache-2.0
#include "server/commands/completion.h"

#include <algorithm>

#include "server/commands/execution_name.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

Json LogprobJson(const v1::TokenLogprob& entry) {
  Json top = Json::array();
  for (const v1::TopLogprob& candidate : entry.top()) {
    top.push_back({{"token_id", candidate.token_id()}, {"logprob", candidate.logprob()}});
  }
  return {{"token_id", entry.token_id()}, {"logprob", entry.logprob()}, {"top", std::move(top)}};
}

Json LogprobsJson(const std::vector<v1::TokenLogprob>& entries) {
  Json list = Json::array();
  for (const v1::TokenLogprob& entry : entries) list.push_back(LogprobJson(entry));
  return list;
}

Json FinishJson(const v1::Finish& finish) {
  Json json = {{"reason", finish.reason() == v1::FINISH_REASON_LENGTH ? "length" : "stop"},
               {"prompt_tokens", finish.usage().prompt_tokens()},
               {"cached_tokens", finish.usage().cached_tokens()},
               {"completion_tokens", finish.usage().completion_tokens()},
               {"queue_ms", finish.timings().queue_ms()},
               {"ttft_ms", finish.timings().ttft_ms()},
               {"total_ms", finish.timings().total_ms()}};
  if (finish.matched_stop_case() == v1::Finish::kStop) json["stop"] = finish.stop();
  if (finish.matched_stop_case() == v1::Finish::kStopTokenId) json["stop_token_id"] = finish.stop_token_id();
  return json;
}

Json OutputJson(const CompletionOutput& output) {
  return {{"text", output.text},
          {"token_ids", output.token_ids},
          {"logprobs", LogprobsJson(output.logprobs)},
          {"finish", FinishJson(output.finish)}};
}

}  // namespace

void Completion::Add(const v1::GenerateResponse& response) {
  const auto index = static_cast<size_t>(std::max(response.index(), 0));
  if (index >= outputs.size()) outputs.resize(index + 1);
  if (response.has_execution()) execution = response.execution();
  if (!response.request_id().empty()) request_id = response.request_id();
  prompt_logprobs.insert(prompt_logprobs.end(), response.prompt_logprobs().begin(), response.prompt_logprobs().end());
  CompletionOutput& output = outputs[index];
  output.text += response.text_delta();
  output.token_ids.insert(output.token_ids.end(), response.token_ids().begin(), response.token_ids().end());
  output.logprobs.insert(output.logprobs.end(), response.logprobs().begin(), response.logprobs().end());
  if (response.has_finish()) output.finish = response.finish();
}

Json Completion::ToJson() const {
  Json json = OutputJson(outputs[0]);
  json["prompt_logprobs"] = LogprobsJson(prompt_logprobs);
  json["execution"] = ExecutionJson(execution);
  json["request_id"] = request_id;
  if (prompt.has_value()) json["prompt"] = *prompt;
  if (outputs.size() > 1) {
    for (const CompletionOutput& output : outputs) json["outputs"].push_back(OutputJson(output));
  }
  return json;
}

}  // namespace dunlin::server
