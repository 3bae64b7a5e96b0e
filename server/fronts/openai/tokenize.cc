// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/openai/tokenize.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "server/fronts/openai/chat_messages.h"
#include "server/fronts/openai/chat_tools.h"
#include "server/json/json_text.h"
#include "server/serving/record/errors.h"

namespace dunlin::server {
namespace {

using V = JsonValue;

// The fields of a text, beside those of a chat.
struct Reading {
  explicit Reading(TokenizeBody* tokenize_body) : body(tokenize_body), chat(&request) {}
  TokenizeBody* body;
  std::optional<std::string> text;
  bool has_messages = false;
  ClientRequest request;
  GenerationBody chat;
};

constexpr FieldRow<Reading> kTokenize[] = {
    Honoured<Reading>("model", [](const V& v, Reading* r) { r->body->model = v.Text(); }),
    Honoured<Reading>("prompt", [](const V& v, Reading* r) { r->text = v.Text(); }),
    Honoured<Reading>("messages",
                      [](const V& v, Reading* r) {
                        r->has_messages = true;
                        ReadMessages(v, &r->chat);
                      }),
    Honoured<Reading>("tools", [](const V& v, Reading* r) { ReadTools(v, &r->chat); }),
    Honoured<Reading>("chat_template_kwargs", [](const V& v, Reading* r) { ReadTemplateOptions(v, &r->chat); }),
    Honoured<Reading>("add_generation_prompt",
                      [](const V& v, Reading* r) { r->chat.add_generation_prompt = v.Bool(); }),
    Honoured<Reading>("continue_final_message",
                      [](const V& v, Reading* r) { r->chat.chat.continue_final_message = v.Bool(); }),
    Honoured<Reading>("add_special_tokens",
                      [](const V& v, Reading* r) { r->body->options.add_special_tokens = v.Bool(); }),
    Honoured<Reading>("parse_special_tokens",
                      [](const V& v, Reading* r) { r->body->options.parse_special = v.Bool(); }),
    Refused<Reading>("return_token_strs", "/detokenize has them", "false"),
    Refused<Reading>("chat_template", "models[].chat_template sets it"),
};

constexpr FieldRow<DetokenizeBody> kDetokenize[] = {
    Honoured<DetokenizeBody>("model", [](const V& v, DetokenizeBody* b) { b->model = v.Text(); }),
    Honoured<DetokenizeBody>("tokens", [](const V& v, DetokenizeBody* b) { b->tokens = v.TokenIds(); }),
    Honoured<DetokenizeBody>("skip_special_tokens",
                             [](const V& v, DetokenizeBody* b) { b->keep_special_tokens = !v.Bool(); }),
};

template <class Target>
absl::Status ReadInto(std::string_view text, FieldTable<Target> table, IgnoredNames* ignored, Target* target) {
  const absl::StatusOr<Json> json = ParseBody(text);
  if (!json.ok()) return json.status();
  absl::Status status;
  ReadFields(JsonValue(*json, &status, ignored), table, target);
  return status;
}

}  // namespace

absl::Status ReadTokenize(std::string_view text, IgnoredNames* ignored, TokenizeBody* body) {
  Reading reading(body);
  if (absl::Status s = ReadInto(text, FieldTable<Reading>(kTokenize), ignored, &reading); !s.ok()) return s;
  if (reading.text.has_value() == reading.has_messages) {
    return InvalidField("prompt", reading.has_messages ? "is given besides messages" : "is missing",
                        "one of prompt and messages");
  }
  if (reading.text.has_value()) {
    body->prompt = *std::move(reading.text);
    return absl::OkStatus();
  }
  FinishChat(&reading.chat);
  body->prompt = std::get<text::ChatInput>(std::move(reading.request.prompt));
  return absl::OkStatus();
}

std::string TokenizeResponseBody(std::span<const engine::TokenId> tokens, int32_t max_context_tokens) {
  std::string out =
      absl::StrCat("{\"count\":", tokens.size(), ",\"max_model_len\":", max_context_tokens, ",\"tokens\":");
  AppendJsonIds(tokens, &out);
  out.append(",\"token_strs\":null}");
  return out;
}

absl::Status ReadDetokenize(std::string_view text, IgnoredNames* ignored, DetokenizeBody* body) {
  return ReadInto(text, FieldTable<DetokenizeBody>(kDetokenize), ignored, body);
}

std::string DetokenizeResponseBody(std::string_view text) {
  std::string out = "{";
  AppendJsonMember("prompt", text, &out);
  out.push_back('}');
  return out;
}

}  // namespace dunlin::server
