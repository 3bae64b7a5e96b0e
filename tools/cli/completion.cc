// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/completion.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "tools/cli/execution_name.h"

namespace dunlin::cli {
namespace {

using Json = nlohmann::ordered_json;

// [240, 159]; null where the server sent none.
Json BytesJson(const std::string& bytes) {
  if (bytes.empty()) return nullptr;
  Json list = Json::array();
  for (const char byte : bytes) list.push_back(static_cast<uint8_t>(byte));
  return list;
}

Json LogprobJson(const v1::TokenLogprob& entry) {
  Json top = Json::array();
  for (const v1::TopLogprob& candidate : entry.top()) {
    top.push_back({{"token_id", candidate.token_id()},
                   {"logprob", candidate.logprob()},
                   {"bytes", BytesJson(candidate.token_bytes())}});
  }
  return {{"token_id", entry.token_id()},
          {"logprob", entry.logprob()},
          {"rank", entry.rank()},
          {"bytes", BytesJson(entry.token_bytes())},
          {"top", std::move(top)}};
}

Json LogprobsJson(const std::vector<v1::TokenLogprob>& entries) {
  Json list = Json::array();
  for (const v1::TokenLogprob& entry : entries) list.push_back(LogprobJson(entry));
  return list;
}

Json FinishJson(const v1::Finish& finish) {
  Json json = {
      {"reason", FinishWord(finish.reason())},           {"prompt_tokens", finish.usage().prompt_tokens()},
      {"cached_tokens", finish.usage().cached_tokens()}, {"completion_tokens", finish.usage().completion_tokens()},
      {"queue_ms", finish.timings().queue_ms()},         {"ttft_ms", finish.timings().ttft_ms()},
      {"total_ms", finish.timings().total_ms()}};
  if (finish.usage().drafted_tokens() > 0) {
    json["drafted_tokens"] = finish.usage().drafted_tokens();
    json["accepted_tokens"] = finish.usage().accepted_tokens();
  }
  if (finish.matched_stop_case() == v1::Finish::kStop) json["stop"] = finish.stop();
  if (finish.matched_stop_case() == v1::Finish::kStopTokenId) json["stop_token_id"] = finish.stop_token_id();
  if (!finish.constraint_error().empty()) json["constraint_error"] = finish.constraint_error();
  return json;
}

Json OutputJson(const CompletionOutput& output) {
  Json calls = Json::array();
  for (const v1::ToolCall& call : output.tool_calls) calls.push_back(ToolCallJson(call));
  return {{"text", output.text},
          {"reasoning", output.reasoning},
          {"tool_calls", std::move(calls)},
          {"token_ids", output.token_ids},
          {"logprobs", LogprobsJson(output.logprobs)},
          {"finish", FinishJson(output.finish)}};
}

// Deltas of a call follow its first one, which names it; calls come in their order.
void AddCall(const v1::ToolCallDelta& delta, std::vector<v1::ToolCall>* calls) {
  const size_t index = std::min(static_cast<size_t>(std::max(delta.tool_index(), 0)), calls->size());
  if (index == calls->size()) calls->emplace_back();
  v1::ToolCall& call = (*calls)[index];
  if (!delta.id().empty()) call.set_id(delta.id());
  if (!delta.name().empty()) call.set_name(delta.name());
  call.mutable_arguments_json()->append(delta.arguments_delta());
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
  output.reasoning += response.reasoning_delta();
  for (const v1::ToolCallDelta& delta : response.tool_call_delta()) AddCall(delta, &output.tool_calls);
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

Json ToolCallJson(const v1::ToolCall& call) {
  return {{"id", call.id()}, {"name", call.name()}, {"arguments", call.arguments_json()}};
}

std::string FinishWord(v1::FinishReason reason) {
  const std::string name = v1::FinishReason_Name(reason);
  constexpr size_t kPrefix = sizeof("FINISH_REASON_") - 1;
  return name.size() <= kPrefix ? "?" : absl::AsciiStrToLower(name.substr(kPrefix));
}

std::string IncompleteNote(const v1::Finish& finish, bool constrained) {
  const bool cut = constrained && finish.reason() == v1::FINISH_REASON_LENGTH;
  if (!cut && finish.reason() != v1::FINISH_REASON_CONSTRAINT) return "";
  return absl::StrCat("the output may be incomplete: finish reason ", FinishWord(finish.reason()),
                      finish.constraint_error().empty() ? "" : ": ", finish.constraint_error());
}

double DecodeTokensPerSecond(const v1::Finish& finish) {
  const int tokens = finish.usage().completion_tokens();
  const double decode_ms = finish.timings().total_ms() - finish.timings().ttft_ms();
  return tokens > 1 && decode_ms > 0 ? (tokens - 1) * 1000.0 / decode_ms : 0.0;
}

}  // namespace dunlin::cli
