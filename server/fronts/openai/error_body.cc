// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/error_body.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "engine/base/string_view.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"
#include "server/serving/text/prompt_overflow.h"

namespace dunlin::server {
namespace {

struct TypeRow {
  absl::StatusCode code;
  const char* openai;
  const char* anthropic;
};
constexpr TypeRow kTypes[] = {
    {absl::StatusCode::kInvalidArgument, "invalid_request_error", "invalid_request_error"},
    {absl::StatusCode::kFailedPrecondition, "invalid_request_error", "invalid_request_error"},
    {absl::StatusCode::kOutOfRange, "invalid_request_error", "invalid_request_error"},
    {absl::StatusCode::kNotFound, "invalid_request_error", "not_found_error"},
    {absl::StatusCode::kUnauthenticated, "authentication_error", "authentication_error"},
    {absl::StatusCode::kPermissionDenied, "permission_error", "permission_error"},
    {absl::StatusCode::kResourceExhausted, "rate_limit_error", "rate_limit_error"},
    {absl::StatusCode::kUnavailable, "service_unavailable_error", "overloaded_error"},
    {absl::StatusCode::kDeadlineExceeded, "timeout_error", "timeout_error"},
};
constexpr char kContextLengthExceeded[] = "context_length_exceeded";
constexpr TypeRow kOtherType = {absl::StatusCode::kInternal, "server_error", "api_error"};

const TypeRow& TypeOf(absl::StatusCode code) {
  for (const TypeRow& row : kTypes) {
    if (row.code == code) return row;
  }
  return kOtherType;
}

// `,"name":"text"`; nothing for an empty text.
void AppendOptional(std::string_view name, std::string_view text, std::string* out) {
  if (text.empty()) return;
  out->push_back(',');
  AppendJsonMember(name, text, out);
}

void AppendTextOrNull(std::string_view name, std::string_view text, std::string* out) {
  if (!text.empty()) return AppendOptional(name, text, out);
  absl::StrAppend(out, ",\"", engine::AbslView(name), "\":null");
}

void AppendDetails(const ErrorDetails& details, std::string* out) {
  AppendOptional("limit", details.limit, out);
  AppendOptional("model", details.model, out);
  AppendOptional("config_key", details.config_key, out);
  if (!details.refusals.empty()) {
    out->append(",\"refusals\":[");
    for (const std::string& refusal : details.refusals) {
      if (out->back() != '[') out->push_back(',');
      AppendJsonString(refusal, out);
    }
    out->push_back(']');
  }
  if (details.retry_after_ms.has_value()) absl::StrAppend(out, ",\"retry_after_ms\":", *details.retry_after_ms);
}

// A message may quote a chat template's words, which need not be UTF-8.
std::string MessageOf(const absl::Status& status) {
  std::string message = Utf8OrReplaced(engine::StdView(status.message()));
  if (ReasonName(status) == Traits(Reason::kUnknownModel).name) message += "; GET /v1/models lists those that are";
  return message;
}

// The words by which clients recognise a prompt that is too long: LiteLLM and opencode look for "maximum context length
// is", Codex for the code, LangChain for "prompt is too long"; Anthropic's clients for that and its two numbers.
std::string OpenAiOverflow(const PromptOverflow& overflow, const absl::Status& status) {
  // By the queue or the KV pool.
  const bool narrowed = overflow.max_prompt_tokens + 1 < overflow.context_tokens;
  const std::string most =
      narrowed ? absl::StrCat(", and the server takes prompts of at most ", overflow.max_prompt_tokens) : "";
  return absl::StrCat("This model's maximum context length is ", overflow.context_tokens, " tokens", most,
                      ". However, your request has ", overflow.at_least ? "at least " : "", overflow.prompt_tokens,
                      " prompt tokens: the prompt is too long. (", MessageOf(status), ")");
}

std::string AnthropicOverflow(const PromptOverflow& overflow, const absl::Status& status) {
  return absl::StrCat("prompt is too long: ", overflow.prompt_tokens, " tokens > ", overflow.max_prompt_tokens,
                      " maximum", overflow.at_least ? ", counting stopped there" : "", " (", MessageOf(status), ")");
}

}  // namespace

std::string OpenAiError(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const std::optional<PromptOverflow> overflow = OverflowOf(status);
  std::string out = "{\"error\":{";
  AppendJsonMember("message", overflow.has_value() ? OpenAiOverflow(*overflow, status) : MessageOf(status), &out);
  AppendOptional("type", TypeOf(status.code()).openai, &out);
  AppendTextOrNull("param", details.field, &out);
  AppendTextOrNull("code", overflow.has_value() ? kContextLengthExceeded : details.reason, &out);
  AppendDetails(details, &out);
  out.append("}}");
  return out;
}

std::string CohereError(const absl::Status& status) {
  std::string out = "{";
  AppendJsonMember("message", MessageOf(status), &out);
  return absl::StrCat(out, ",", OpenAiError(status).substr(1));
}

std::string AnthropicError(const absl::Status& status) {
  const ErrorDetails details = DetailsOf(status);
  const std::optional<PromptOverflow> overflow = OverflowOf(status);
  std::string out = "{\"type\":\"error\",\"error\":{";
  AppendJsonMember("type", TypeOf(status.code()).anthropic, &out);
  out.push_back(',');
  AppendJsonMember("message", overflow.has_value() ? AnthropicOverflow(*overflow, status) : MessageOf(status), &out);
  AppendOptional("reason", details.reason, &out);
  AppendOptional("field", details.field, &out);
  AppendDetails(details, &out);
  // The tool runners of Anthropic's clients begin with a stored thread, and go on without one after this.
  if (details.field == "thread") {
    out.append(R"(,"details":{"error_code":"thread_unsupported_request","unsupported":["thread"]})");
  }
  out.append("}}");
  return out;
}

}  // namespace dunlin::server
