// SPDX-License-Identifier: Apache-2.0
#include "tools/load/openai.h"

#include <nlohmann/json.hpp>

namespace dunlin::tools::load {
namespace {

using Json = nlohmann::json;

std::string ErrorMessage(const Json& json) {
  if (!json.is_object() || !json.contains("error")) return "";
  const Json& error = json["error"];
  if (error.is_string()) return error.get<std::string>();
  if (!error.is_object() || !error.contains("message") || !error["message"].is_string()) return "an error";
  return error["message"].get<std::string>();
}

// The text of a completion's choice, or of a chat's delta.
bool HasText(const Json& choice) {
  const Json* holder = &choice;
  const char* key = "text";
  if (choice.contains("delta") && choice["delta"].is_object()) {
    holder = &choice["delta"];
    key = "content";
  }
  return holder->contains(key) && (*holder)[key].is_string() && !(*holder)[key].get_ref<const std::string&>().empty();
}

std::optional<int32_t> Count(const Json& usage, const char* key) {
  if (!usage.contains(key) || !usage[key].is_number_integer()) return std::nullopt;
  return usage[key].get<int32_t>();
}

}  // namespace

std::string OpenAiBody(const RequestOptions& options, const Prompt& prompt, uint64_t seed) {
  Json body = {{"model", options.model},
               {"max_tokens", prompt.max_tokens},
               {"temperature", options.temperature},
               {"seed", seed & 0x7fffffff},
               {"stream", true},
               {"stream_options", {{"include_usage", true}}}};
  if (prompt.ignore_eos) body["ignore_eos"] = true;  // vLLM, SGLang, llama.cpp; others ignore it
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
  if (json.contains("error") && !json["error"].is_null()) return absl::InternalError(ErrorMessage(json));
  if (json.contains("choices") && json["choices"].is_array() && !json["choices"].empty() &&
      json["choices"][0].is_object()) {
    const Json& choice = json["choices"][0];
    event.has_text = HasText(choice);
    if (choice.contains("finish_reason") && choice["finish_reason"].is_string()) {
      event.finish_reason = choice["finish_reason"].get<std::string>();
    }
  }
  if (json.contains("usage") && json["usage"].is_object()) {
    event.prompt_tokens = Count(json["usage"], "prompt_tokens");
    event.completion_tokens = Count(json["usage"], "completion_tokens");
  }
  return event;
}

std::string OpenAiErrorMessage(std::string_view body) {
  return ErrorMessage(Json::parse(body, nullptr, /*allow_exceptions=*/false));
}

}  // namespace dunlin::tools::load
