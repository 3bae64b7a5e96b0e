// SPDX-License-Identifier: Apache-2.0
#include "tools/load/openai.h"

#include <nlohmann/json.hpp>

#include "absl/strings/ascii.h"

namespace dunlin::tools::load {
namespace {

using Json = nlohmann::json;

// The member, or null: of what is no object, too.
const Json& Member(const Json& json, const char* key) {
  static const Json kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(key);
  return found == json.end() ? kNone : *found;
}

std::string TextOf(const Json& json) {
  return json.is_string() ? json.get<std::string>() : "";
}

OpenAiFailure FailureOf(const Json& error) {
  if (error.is_string()) return {"", error.get<std::string>()};
  OpenAiFailure failure{TextOf(Member(error, "code")), TextOf(Member(error, "message"))};
  if (failure.message.empty()) failure.message = "an error without a message";
  return failure;
}

bool HasElements(const Json& json) {
  return (json.is_string() && !json.get_ref<const std::string&>().empty()) || (json.is_array() && !json.empty());
}

// Of a completion's choice, or of a chat's with its delta.
int32_t NumTokens(const Json& choice) {
  const Json& ids = Member(choice, "token_ids");
  if (ids.is_array()) return static_cast<int32_t>(ids.size());
  if (HasElements(Member(choice, "text"))) return 1;
  const Json& delta = Member(choice, "delta");
  for (const char* key : {"content", "reasoning_content", "reasoning", "tool_calls"}) {
    if (HasElements(Member(delta, key))) return 1;
  }
  return 0;
}

std::optional<int32_t> CountOf(const Json& json) {
  if (!json.is_number_integer()) return std::nullopt;
  return json.get<int32_t>();
}

double EngineMs(const Json& timings) {
  const Json& total = Member(timings, "total_ms");
  const Json& queue = Member(timings, "queue_ms");
  return total.is_number() && queue.is_number() ? total.get<double>() - queue.get<double>() : -1;
}

// "ATTENTION_BACKEND_FLASH" to "flash".
template <size_t kSize>
std::string NameAfter(const char (&prefix)[kSize], const std::string& name) {
  static_assert(kSize > 1);
  return absl::AsciiStrToLower(name.substr(name.rfind(prefix, 0) == 0 ? kSize - 1 : 0));
}

void AddExecution(const RequestOptions& options, const MixEntry& profile, Json* body) {
  if (profile.attention_backend != v1::ATTENTION_BACKEND_AUTO) {
    (*body)["attention_backend"] =
        NameAfter("ATTENTION_BACKEND_", v1::AttentionBackend_Name(profile.attention_backend));
  }
  if (profile.precision != v1::PRECISION_AUTO) {
    (*body)["precision"] = NameAfter("PRECISION_", v1::Precision_Name(profile.precision));
  }
  if (options.allow_fallback) (*body)["allow_fallback"] = true;
  if (!options.speculation.empty()) (*body)["speculation"] = options.speculation;
}

}  // namespace

std::string OpenAiBody(const RequestOptions& options, const Prompt& prompt, const MixEntry& profile, uint64_t seed) {
  Json body = {{"model", options.model},
               {"max_tokens", prompt.max_tokens},
               {"temperature", options.temperature},
               {"seed", seed & 0x7fffffff},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (prompt.ignore_eos) body["ignore_eos"] = true;  // vLLM, SGLang, llama.cpp; others ignore it
  if (options.token_ids) body["return_token_ids"] = true;
  AddExecution(options, profile, &body);
  if (options.chat) {
    body["messages"] = Json::array({{{"role", "user"}, {"content", prompt.text}}});
  } else if (prompt.token_ids.empty()) {
    body["prompt"] = prompt.text;
  } else {
    body["prompt"] = prompt.token_ids;
  }
  return body.dump(-1, ' ', false, Json::error_handler_t::replace);
}

absl::StatusOr<OpenAiEvent> ParseOpenAiEvent(std::string_view data) {
  OpenAiEvent event;
  if (data == "[DONE]") {
    event.done = true;
    return event;
  }
  const Json json = Json::parse(data, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InternalError("an event is not a JSON object");
  if (const Json& error = Member(json, "error"); !error.is_null()) event.error = FailureOf(error);
  if (const Json& choices = Member(json, "choices"); choices.is_array() && !choices.empty()) {
    event.num_tokens = NumTokens(choices[0]);
    event.finish_reason = TextOf(Member(choices[0], "finish_reason"));
  }
  const Json& usage = Member(json, "usage");
  event.prompt_tokens = CountOf(Member(usage, "prompt_tokens"));
  event.completion_tokens = CountOf(Member(usage, "completion_tokens"));
  event.engine_ms = EngineMs(Member(Member(json, "dunlin"), "timings"));
  return event;
}

OpenAiFailure ParseOpenAiFailure(std::string_view body) {
  const Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  const Json& error = Member(json, "error");
  return error.is_null() ? OpenAiFailure() : FailureOf(error);
}

}  // namespace dunlin::tools::load
