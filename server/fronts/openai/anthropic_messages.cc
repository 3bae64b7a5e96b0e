// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/anthropic_messages.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/anthropic_input.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/error_body.h"
#include "server/json/json_text.h"

namespace dunlin::server {
namespace {

using Kind = OutputBlock::Kind;

// The head of an event, whose other members follow, each with a leading comma.
void BeginEvent(const char* type, std::string* out) {
  absl::StrAppend(out, "event: ", type, "\ndata: {\"type\":\"", type, "\"");
}
void EndEvent(std::string* out) {
  out->append("}\n\n");
}

// `started`: as content_block_start shows a block, before its text.
void AppendBlock(const OutputBlock& block, bool started, std::string* out) {
  const std::string_view text = started ? std::string_view() : std::string_view(block.text);
  switch (block.kind) {
    case Kind::kReasoning:
      out->append("{\"type\":\"thinking\",");
      AppendJsonMember("thinking", text, out);
      out->append(",\"signature\":\"\"}");
      return;
    case Kind::kText:
      out->append("{\"type\":\"text\",");
      AppendJsonMember("text", text, out);
      out->push_back('}');
      return;
    case Kind::kToolCall:
      out->append("{\"type\":\"tool_use\",");
      AppendJsonMember("id", block.call_id, out);
      out->push_back(',');
      AppendJsonMember("name", block.name, out);
      // A call that was cut off is no JSON, and a client expects an object.
      absl::StrAppend(out, ",\"input\":", engine::AbslView(IsJsonObject(text) ? text : std::string_view("{}")), "}");
  }
}

struct DeltaRow {
  const char* type;
  const char* member;
};
constexpr DeltaRow kDeltas[] = {
    {"thinking_delta", "thinking"}, {"text_delta", "text"}, {"input_json_delta", "partial_json"}};

// The events of a block.
class Events final : public OutputBlocks::Listener {
 public:
  explicit Events(std::string* out) : out_(out) {}

  void OnOpen(size_t index, const OutputBlock& block) override {
    BeginEvent("content_block_start", out_);
    absl::StrAppend(out_, ",\"index\":", index, ",\"content_block\":");
    AppendBlock(block, /*started=*/true, out_);
    EndEvent(out_);
  }

  void OnDelta(size_t index, const OutputBlock& block, std::string_view delta, std::string_view /*logprobs*/) override {
    const DeltaRow& row = kDeltas[static_cast<size_t>(block.kind)];
    BeginEvent("content_block_delta", out_);
    absl::StrAppend(out_, ",\"index\":", index, ",\"delta\":{\"type\":\"", row.type, "\",");
    AppendJsonMember(row.member, delta, out_);
    out_->push_back('}');
    EndEvent(out_);
  }

  void OnClose(size_t index, const OutputBlock& /*block*/) override {
    BeginEvent("content_block_stop", out_);
    absl::StrAppend(out_, ",\"index\":", index);
    EndEvent(out_);
  }

 private:
  std::string* const out_;
};

const char* StopReason(const OutputFinish& finish) {
  // An output that its constraint ended may be incomplete, as one that ran out of tokens.
  if (finish.reason != engine::FinishReason::kStop) return "max_tokens";
  if (finish.has_tool_calls) return "tool_use";
  return finish.stop_string.has_value() ? "stop_sequence" : "end_turn";
}

}  // namespace

absl::Status AnthropicTranslator::Read(std::string_view text, ClientRequest* request) {
  GenerationBody body(request, facts_.strict);
  absl::Status status = ReadMessagesBody(text, /*counts_tokens=*/false, &body);
  stream_ = body.stream;
  model_ = request->model;
  return status;
}

void AnthropicTranslator::Begin(const OutputChunk& first) {
  head_ = "{";
  AppendJsonMember("id", absl::StrCat("msg_", first.request_id), &head_);
  head_.append(",\"type\":\"message\",\"role\":\"assistant\",");
  AppendJsonMember("model", model_, &head_);
  if (!first.profile.has_value()) return;
  AppendExecution(*first.profile, &execution_, first.adapter, first.num_ranks);
  fingerprint_ = Fingerprint(facts_, *first.profile);
}

// `"stop_reason":...,"stop_sequence":...`
void AnthropicTranslator::AppendStop(std::string* out) const {
  if (!finish_.has_value()) {
    out->append("\"stop_reason\":null,\"stop_sequence\":null");
    return;
  }
  absl::StrAppend(out, "\"stop_reason\":\"", StopReason(*finish_), "\",\"stop_sequence\":");
  if (finish_->stop_string.has_value()) {
    AppendJsonString(*finish_->stop_string, out);
  } else {
    out->append("null");
  }
}

// input_tokens are those that no cache held; a client adds them up.
void AnthropicTranslator::AppendUsage(std::string* out) const {
  const Usage& usage = totals_.usage;
  absl::StrAppend(out, "{\"input_tokens\":", usage.prompt_tokens - usage.cached_tokens,
                  ",\"cache_creation_input_tokens\":0,\"cache_read_input_tokens\":", usage.cached_tokens,
                  ",\"output_tokens\":", usage.completion_tokens, "}");
}

void AnthropicTranslator::AppendDocument(std::string* out) const {
  absl::StrAppend(out, head_, ",\"content\":[");
  for (const OutputBlock& block : blocks_.blocks()) {
    if (&block != blocks_.blocks().data()) out->push_back(',');
    AppendBlock(block, /*started=*/false, out);
  }
  out->append("],");
  AppendStop(out);
  out->append(",\"usage\":");
  AppendUsage(out);
  AppendRun(execution_, fingerprint_, totals_, out);
  out->push_back('}');
}

void AnthropicTranslator::OnChunk(const OutputChunk& chunk, std::string* out) {
  totals_.Count(chunk);
  if (head_.empty()) {
    Begin(chunk);
    if (stream_) {
      BeginEvent("message_start", out);
      out->append(",\"message\":");
      AppendDocument(out);
      EndEvent(out);
      BeginEvent("ping", out);
      EndEvent(out);
    }
  }
  Events events(out);
  OutputBlocks::Listener* listener = stream_ ? &events : nullptr;
  blocks_.Add(chunk, listener);
  if (!chunk.finish.has_value()) return;
  finish_ = chunk.finish;
  blocks_.Close(listener);
}

void AnthropicTranslator::OnEnd(const ResponseEnd& end, std::string* out) {
  if (!stream_) {
    if (end.status.ok()) AppendDocument(out);
    return;
  }
  if (!end.status.ok()) {
    absl::StrAppend(out, "event: error\ndata: ", AnthropicError(end.status), "\n\n");
    return;
  }
  BeginEvent("message_delta", out);
  out->append(",\"delta\":{");
  AppendStop(out);
  out->append("},\"usage\":");
  AppendUsage(out);
  AppendRun(execution_, fingerprint_, totals_, out);
  EndEvent(out);
  BeginEvent("message_stop", out);
  EndEvent(out);
}

std::string AnthropicTranslator::ErrorBody(const absl::Status& status) {
  return AnthropicError(status);
}

absl::Status ReadCountTokens(std::string_view text, bool strict, ClientRequest* request) {
  GenerationBody body(request, strict);
  absl::Status status = ReadMessagesBody(text, /*counts_tokens=*/true, &body);
  // As a generation with this choice, whose template sees no tools.
  auto* chat = std::get_if<text::ChatInput>(&request->prompt);
  if (chat != nullptr && request->tool_choice.mode == ClientToolChoice::Mode::kNone) chat->tools_json.clear();
  return status;
}

std::string CountTokensBody(size_t tokens) {
  return absl::StrCat("{\"input_tokens\":", tokens, "}");
}

}  // namespace dunlin::server
