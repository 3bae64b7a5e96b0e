// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/responses.h"

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/error_body.h"
#include "server/fronts/openai/field_names.h"
#include "server/fronts/openai/responses_input.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using Kind = OutputBlock::Kind;

struct KindRow {
  const char* id_prefix;
  const char* delta_event;
  const char* done_event;
  const char* done_member;  // of the done event: the whole text
};
constexpr KindRow kKinds[] = {
    {"rs_", "response.reasoning_text.delta", "response.reasoning_text.done", "text"},
    {"msg_", "response.output_text.delta", "response.output_text.done", "text"},
    {"fc_", "response.function_call_arguments.delta", "response.function_call_arguments.done", "arguments"},
};
const KindRow& RowOf(Kind kind) {
  return kKinds[static_cast<size_t>(kind)];
}

// The one part of a message's or of reasoning's content.
void AppendPart(Kind kind, std::string_view text, std::string_view logprobs, std::string* out) {
  out->append(kind == Kind::kText ? "{\"type\":\"output_text\"," : "{\"type\":\"reasoning_text\",");
  AppendJsonMember("text", text, out);
  if (kind == Kind::kText) {
    absl::StrAppend(out, ",\"annotations\":[],\"logprobs\":[", engine::AbslView(logprobs), "]");
  }
  out->push_back('}');
}

// What the request left open, as the response says it.
std::string EchoedMembers(const Json& given) {
  Json echoed = {{"instructions", nullptr},    {"max_output_tokens", nullptr},
                 {"metadata", Json::object()}, {"parallel_tool_calls", true},
                 {"temperature", nullptr},     {"tool_choice", "auto"},
                 {"tools", Json::array()},     {"top_p", nullptr}};
  echoed.update(given);
  const std::string object = DumpJson(echoed);
  return absl::StrCat(object.substr(1, object.size() - 2), ",\"store\":false,\"previous_response_id\":null");
}

}  // namespace

// The events of a block.
class ResponsesTranslator::Events final : public OutputBlocks::Listener {
 public:
  Events(ResponsesTranslator* translator, std::string* out) : translator_(translator), out_(out) {}

  void OnOpen(size_t index, const OutputBlock& block) override {
    AppendItemEvent("response.output_item.added", index, block, "in_progress");
    if (block.kind != Kind::kToolCall) AppendPartEvent("response.content_part.added", index, block);
  }

  void OnDelta(size_t index, const OutputBlock& block, std::string_view delta, std::string_view logprobs) override {
    Begin(RowOf(block.kind).delta_event, index, block);
    out_->push_back(',');
    AppendJsonMember("delta", delta, out_);
    if (block.kind == Kind::kText) absl::StrAppend(out_, ",\"logprobs\":[", engine::AbslView(logprobs), "]");
    EndEvent(out_);
  }

  void OnClose(size_t index, const OutputBlock& block) override {
    Begin(RowOf(block.kind).done_event, index, block);
    out_->push_back(',');
    AppendJsonMember(RowOf(block.kind).done_member, block.text, out_);
    if (block.kind == Kind::kText) absl::StrAppend(out_, ",\"logprobs\":[", block.logprobs, "]");
    if (block.kind == Kind::kToolCall) {
      out_->push_back(',');
      translator_->AppendFunctionName(block.name, out_);
    }
    EndEvent(out_);
    if (block.kind != Kind::kToolCall) AppendPartEvent("response.content_part.done", index, block);
    AppendItemEvent("response.output_item.done", index, block, translator_->final_status());
  }

 private:
  // An event with the place of what it is about.
  void Begin(const char* type, size_t index, const OutputBlock& block) {
    translator_->BeginEvent(type, out_);
    absl::StrAppend(out_, ",\"item_id\":\"", translator_->ItemId(index, block), "\",\"output_index\":", index);
    if (block.kind != Kind::kToolCall) out_->append(",\"content_index\":0");
  }

  void AppendItemEvent(const char* type, size_t index, const OutputBlock& block, const char* status) {
    translator_->BeginEvent(type, out_);
    absl::StrAppend(out_, ",\"output_index\":", index, ",\"item\":");
    translator_->AppendItem(index, block, status, out_);
    EndEvent(out_);
  }

  void AppendPartEvent(const char* type, size_t index, const OutputBlock& block) {
    Begin(type, index, block);
    out_->append(",\"part\":");
    AppendPart(block.kind, block.text, block.logprobs, out_);
    EndEvent(out_);
  }

  ResponsesTranslator* const translator_;
  std::string* const out_;
};

absl::Status ResponsesTranslator::Read(std::string_view text, ClientRequest* request) {
  request->field_names = &kResponsesFieldNames;
  GenerationBody body(request, facts_.strict);
  body.echoed_names = EchoedResponsesFields();
  absl::Status status = ReadGenerationBody(text, ResponsesFields(), &body);
  FinishChat(&body);
  for (const NamespacedTool& tool : body.namespaced) namespaced_.emplace(tool.offered, tool);
  stream_ = body.stream;
  model_ = request->model;
  echoed_ = EchoedMembers(body.echoed);
  if (status.ok() && body.top_logprobs.value_or(0) != 0 && !body.logprobs) {
    return InvalidField("top_logprobs", "is given alone", "requests that include \"message.output_text.logprobs\"");
  }
  return status;
}

void ResponsesTranslator::Begin(const OutputChunk& first) {
  request_id_.clear();
  AppendJsonEscaped(first.request_id, &request_id_);
  head_ = absl::StrCat("{\"id\":\"resp_", request_id_, "\",\"object\":\"response\",\"created_at\":", facts_.created);
  if (!first.profile.has_value()) return;
  AppendExecution(*first.profile, &execution_, first.adapter, first.num_ranks);
  fingerprint_ = Fingerprint(facts_, *first.profile);
}

std::string ResponsesTranslator::ItemId(size_t index, const OutputBlock& block) const {
  return absl::StrCat(RowOf(block.kind).id_prefix, request_id_, "_", index);
}

void ResponsesTranslator::AppendFunctionName(const std::string& offered, std::string* out) const {
  const auto found = namespaced_.find(offered);
  if (found == namespaced_.end()) return AppendJsonMember("name", offered, out);
  AppendJsonMember("name", found->second.name, out);
  out->push_back(',');
  AppendJsonMember("namespace", found->second.space, out);
}

void ResponsesTranslator::AppendItem(size_t index, const OutputBlock& block, std::string_view status,
                                     std::string* out) const {
  const bool added = status == "in_progress";
  // A call that broke has no arguments that could be read.
  const bool broken = !added && block.kind == Kind::kToolCall && !IsJsonObject(block.text);
  if (broken) status = "incomplete";
  absl::StrAppend(out, "{\"id\":\"", ItemId(index, block), "\",\"status\":\"", engine::AbslView(status), "\",");
  switch (block.kind) {
    case Kind::kReasoning:
      out->append("\"type\":\"reasoning\",\"summary\":[],\"content\":[");
      break;
    case Kind::kText:
      out->append("\"type\":\"message\",\"role\":\"assistant\",\"content\":[");
      break;
    case Kind::kToolCall:
      out->append("\"type\":\"function_call\",");
      AppendJsonMember("call_id", block.call_id, out);
      out->push_back(',');
      AppendFunctionName(block.name, out);
      out->push_back(',');
      AppendJsonMember("arguments", block.text, out);
      out->push_back('}');
      return;
  }
  if (!added) AppendPart(block.kind, block.text, block.logprobs, out);
  out->append("]}");
}

void ResponsesTranslator::AppendUsage(std::string* out) const {
  const Usage& usage = totals_.usage;
  absl::StrAppend(out, "{\"input_tokens\":", usage.prompt_tokens,
                  ",\"input_tokens_details\":{\"cached_tokens\":", usage.cached_tokens,
                  ",\"cache_write_tokens\":0},\"output_tokens\":", usage.completion_tokens,
                  ",\"output_tokens_details\":{\"reasoning_tokens\":", totals_.reasoning_tokens,
                  "},\"total_tokens\":", usage.prompt_tokens + usage.completion_tokens, "}");
}

void ResponsesTranslator::AppendResponse(const char* status, const absl::Status* failure, std::string* out) const {
  absl::StrAppend(out, head_, ",\"status\":\"", status, "\",\"error\":");
  if (failure == nullptr) {
    out->append("null");
  } else {
    out->append(absl::IsResourceExhausted(*failure) ? "{\"code\":\"rate_limit_exceeded\","
                                                    : "{\"code\":\"server_error\",");
    AppendJsonMember("message", Utf8OrReplaced(engine::StdView(failure->message())), out);
    out->push_back('}');
  }
  out->append(",\"incomplete_details\":");
  out->append(std::string_view(status) == "incomplete" ? "{\"reason\":\"max_output_tokens\"}," : "null,");
  AppendJsonMember("model", model_, out);
  out->append(",\"output\":[");
  for (size_t i = 0; i < blocks_.blocks().size(); ++i) {
    if (i > 0) out->push_back(',');
    const bool last = i + 1 == blocks_.blocks().size();
    AppendItem(i, blocks_.blocks()[i], last && std::string_view(status) != "completed" ? "incomplete" : "completed",
               out);
  }
  absl::StrAppend(out, "],", echoed_, ",\"usage\":");
  if (totals_.any_finish) {
    AppendUsage(out);
  } else {
    out->append("null");
  }
  AppendRun(execution_, fingerprint_, totals_, out);
  out->push_back('}');
}

void ResponsesTranslator::BeginEvent(const char* type, std::string* out) {
  absl::StrAppend(out, "event: ", type, "\ndata: {\"type\":\"", type, "\",\"sequence_number\":", sequence_number_++);
}

void ResponsesTranslator::AppendResponseEvent(const char* type, const char* status, const absl::Status* failure,
                                              std::string* out) {
  BeginEvent(type, out);
  out->append(",\"response\":");
  AppendResponse(status, failure, out);
  EndEvent(out);
}

void ResponsesTranslator::OnChunk(const OutputChunk& chunk, std::string* out) {
  if (head_.empty()) {
    Begin(chunk);
    if (stream_) AppendResponseEvent("response.created", "in_progress", nullptr, out);
    if (stream_) AppendResponseEvent("response.in_progress", "in_progress", nullptr, out);
  }
  totals_.Count(chunk);
  Events events(this, out);
  OutputBlocks::Listener* listener = stream_ ? &events : nullptr;
  blocks_.Add(chunk, listener);
  if (!chunk.finish.has_value()) return;
  incomplete_ = chunk.finish->reason != engine::FinishReason::kStop;
  if (blocks_.blocks().empty()) blocks_.AddEmptyText(listener);
  blocks_.Close(listener);
}

void ResponsesTranslator::OnEnd(const ResponseEnd& end, std::string* out) {
  if (!stream_) {
    if (end.status.ok()) AppendResponse(final_status(), nullptr, out);
    return;
  }
  if (end.status.ok()) {
    return AppendResponseEvent(incomplete_ ? "response.incomplete" : "response.completed", final_status(), nullptr,
                               out);
  }
  if (head_.empty()) Begin({});
  const ErrorDetails details = DetailsOf(end.status);
  BeginEvent("error", out);
  out->push_back(',');
  AppendJsonMember("code", details.reason, out);
  out->push_back(',');
  AppendJsonMember("message", Utf8OrReplaced(engine::StdView(end.status.message())), out);
  out->append(",\"param\":null");
  EndEvent(out);
  AppendResponseEvent("response.failed", "failed", &end.status, out);
}

std::string ResponsesTranslator::ErrorBody(const absl::Status& status) {
  return OpenAiError(status);
}

}  // namespace dunlin::server
