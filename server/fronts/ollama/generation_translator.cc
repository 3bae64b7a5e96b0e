// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/ollama/generation_translator.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/ollama/error_body.h"
#include "server/http_calls/logprobs_text.h"
#include "server/json/json_text.h"

namespace dunlin::server::ollama {
namespace {

constexpr double kNsPerMs = 1e6;

int64_t Nanoseconds(double ms) {
  return static_cast<int64_t>(std::max(ms, 0.0) * kNsPerMs);
}

// As the model wrote it, but in one line: between the tokens of JSON ends of lines say nothing, within them there are
// none.
void AppendInOneLine(std::string_view json, std::string* out) {
  std::copy_if(json.begin(), json.end(), std::back_inserter(*out), [](char c) { return c != '\n' && c != '\r'; });
}

void AppendToolCall(const ToolCallDelta& call, std::string* out) {
  out->push_back('{');
  AppendJsonMember("id", call.id, out);
  absl::StrAppend(out, ",\"function\":{\"index\":", call.tool_index, ",");
  AppendJsonMember("name", call.name, out);
  // A call that was cut off is no JSON, and a client expects an object.
  out->append(",\"arguments\":");
  AppendInOneLine(IsJsonObject(call.arguments) ? call.arguments : "{}", out);
  out->append("}}");
}

}  // namespace

absl::Status GenerationTranslator::Read(std::string_view text, ClientRequest* request) {
  GenerationBody body{.request = request, .strict = facts_.response.strict};
  absl::Status status = ReadGenerationBody(api_, text, &body);
  stream_ = body.stream;
  loads_only_ = request->loads_only;
  head_ = "{";
  AppendJsonMember("model", request->model, &head_);
  head_.push_back(',');
  AppendJsonMember("created_at", facts_.created_at, &head_);
  return status;
}

// A line that adds nothing: clients parse every line.
StreamForm GenerationTranslator::stream_form() const {
  StreamForm form{"application/x-ndjson", head_};
  AppendOutput({}, num_sent_calls_, &form.idle_text);
  form.idle_text.append(",\"done\":false}\n");
  return form;
}

void GenerationTranslator::AppendOutput(const Unsent& output, size_t num_calls, std::string* out) const {
  const bool chat = api_ == GenerationApi::kChat;
  out->append(chat ? ",\"message\":{\"role\":\"assistant\"," : ",");
  AppendJsonMember(chat ? "content" : "response", output.text, out);
  if (!output.reasoning.empty()) {
    out->push_back(',');
    AppendJsonMember("thinking", output.reasoning, out);
  }
  for (size_t i = num_sent_calls_; i < num_calls; ++i) {
    out->append(i == num_sent_calls_ ? ",\"tool_calls\":[" : ",");
    AppendToolCall(calls_[i], out);
  }
  if (num_sent_calls_ < num_calls) out->push_back(']');
  if (chat) out->push_back('}');
  if (!output.logprobs.empty()) absl::StrAppend(out, ",\"logprobs\":[", output.logprobs, "]");
}

void GenerationTranslator::AppendLine(size_t num_calls, std::string* out) {
  if (unsent_.text.empty() && unsent_.reasoning.empty() && unsent_.logprobs.empty() && num_sent_calls_ == num_calls) {
    return;
  }
  out->append(head_);
  AppendOutput(unsent_, num_calls, out);
  out->append(",\"done\":false}\n");
  unsent_ = {};
  num_sent_calls_ = num_calls;
}

void GenerationTranslator::OnChunk(const OutputChunk& chunk, std::string* out) {
  totals_.Count(chunk);
  if (chunk.profile.has_value()) {
    AppendExecution(*chunk.profile, &execution_, chunk.adapter, chunk.num_ranks);
    fingerprint_ = Fingerprint(facts_.response, *chunk.profile);
  }
  unsent_.text.append(chunk.text);
  unsent_.reasoning.append(chunk.reasoning);
  AppendChatLogprobs(chunk.logprobs, &unsent_.logprobs);
  GatherToolCalls(chunk.tool_calls, &calls_);
  if (chunk.finish.has_value()) finish_ = chunk.finish;
  // The last call may go on until the output has ended.
  const size_t num_whole = calls_.size() - (finish_.has_value() || calls_.empty() ? 0 : 1);
  if (stream_) AppendLine(std::max(num_whole, num_sent_calls_), out);
}

// The members of the last object. load_duration: until the request was first scheduled, which is the wait for a model
// that requests load and for the queue.
void GenerationTranslator::AppendEnd(std::string* out) const {
  // An output that its constraint ended may be incomplete, as one that ran out of tokens.
  const bool stopped = !finish_.has_value() || finish_->reason == engine::FinishReason::kStop;
  const Timings& timings = totals_.timings;
  absl::StrAppend(out, ",\"done\":true,\"done_reason\":\"", stopped ? "stop" : "length",
                  "\",\"total_duration\":", Nanoseconds(timings.total_ms),
                  ",\"load_duration\":", Nanoseconds(timings.queue_ms),
                  ",\"prompt_eval_count\":", totals_.usage.prompt_tokens,
                  ",\"prompt_eval_duration\":", Nanoseconds(timings.ttft_ms - timings.queue_ms),
                  ",\"eval_count\":", totals_.usage.completion_tokens,
                  ",\"eval_duration\":", Nanoseconds(timings.total_ms - timings.ttft_ms));
  AppendRun(execution_, fingerprint_, totals_, out);
  out->push_back('}');
}

void GenerationTranslator::OnEnd(const ResponseEnd& end, std::string* out) {
  if (!end.status.ok()) {
    if (stream_) absl::StrAppend(out, ollama::ErrorBody(end.status), "\n");
    return;
  }
  out->append(head_);
  AppendOutput(unsent_, calls_.size(), out);
  if (loads_only_) {
    absl::StrAppend(out, ",\"done\":true,\"done_reason\":\"", end.model_freed ? "unload" : "load", "\"}");
  } else {
    AppendEnd(out);
  }
  if (stream_) out->push_back('\n');
}

std::string GenerationTranslator::ErrorBody(const absl::Status& status) {
  return ollama::ErrorBody(status);
}

}  // namespace dunlin::server::ollama
