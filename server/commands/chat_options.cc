// SPDX-License-Identifier: Apache-2.0
#include "server/commands/chat_options.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/status/status.h"

namespace dunlin::server {
namespace {

using Json = nlohmann::ordered_json;

// Moves a text field of `fields` to *out; false, and nothing is moved, if it is not there or not a text.
bool TakeText(const char* name, Json* fields, std::string* out) {
  const auto found = fields->find(name);
  if (found == fields->end() || !found->is_string()) return false;
  *out = found->get<std::string>();
  fields->erase(found);
  return true;
}

void TakeContent(Json* fields, v1::ChatMessage* message) {
  std::string text;
  if (TakeText("content", fields, &text)) return message->set_content(std::move(text));
  const auto content = fields->find("content");
  if (content == fields->end()) return;
  if (content->is_array()) {
    for (Json& part : *content) {
      v1::ContentPart* out = message->add_parts();
      if (!part.is_object()) continue;  // the server refuses a part without a type
      TakeText("type", &part, out->mutable_type());
      TakeText("text", &part, out->mutable_text());
    }
  }
  if (content->is_array() || content->is_null()) fields->erase(content);
}

void TakeToolCalls(Json* fields, v1::ChatMessage* message) {
  const auto calls = fields->find("tool_calls");
  if (calls == fields->end() || !calls->is_array()) return;
  for (Json& call : *calls) {
    v1::ToolCall* out = message->add_tool_calls();
    if (!call.is_object()) continue;
    TakeText("id", &call, out->mutable_id());
    Json& function = call.contains("function") && call["function"].is_object() ? call["function"] : call;
    TakeText("name", &function, out->mutable_name());
    if (TakeText("arguments", &function, out->mutable_arguments_json()) || !function.contains("arguments")) continue;
    out->set_arguments_json(function["arguments"].dump());
  }
  fields->erase(calls);
}

absl::Status AddMessages(const std::string& text, v1::Chat* chat) {
  Json messages = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (messages.is_object()) messages = Json::array({std::move(messages)});
  if (!messages.is_array()) return absl::InvalidArgumentError("--messages is not a JSON list");
  for (Json& fields : messages) {
    if (!fields.is_object()) return absl::InvalidArgumentError("--messages has an entry that is not an object");
    v1::ChatMessage* message = chat->add_messages();
    TakeText("role", &fields, message->mutable_role());
    TakeContent(&fields, message);
    TakeText("name", &fields, message->mutable_name());
    TakeToolCalls(&fields, message);
    TakeText("tool_call_id", &fields, message->mutable_tool_call_id());
    TakeText("reasoning_content", &fields, message->mutable_reasoning_content());
    if (!fields.empty()) message->set_extra_fields_json(fields.dump());
  }
  return absl::OkStatus();
}

}  // namespace

void AddChatOptions(CLI::App* subcommand, ChatOptions* options) {
  subcommand->add_flag("--chat", options->chat, "The prompt is a user's message; the model's chat template renders it");
  subcommand->add_option("--messages", options->messages_json,
                         "A chat instead of a prompt: a JSON list of {role, content, tool_calls, ...}");
  subcommand->add_option("--tools", options->tools_json, "With a chat: a JSON list of function definitions");
  subcommand->add_option("--template-options", options->template_options_json,
                         "With a chat: a JSON object of variables of the chat template, {\"enable_thinking\": false}");
  subcommand->add_flag("--continue-final-message", options->continue_final_message,
                       "With a chat: continue its last message");
  subcommand->add_flag("--show-prompt", options->show_prompt, "With --json: add the rendered prompt to the object");
}

absl::StatusOr<v1::Chat> MakeChat(const ChatOptions& options, const std::string& prompt) {
  v1::Chat chat;
  if (!options.messages_json.empty()) {
    if (absl::Status s = AddMessages(options.messages_json, &chat); !s.ok()) return s;
  }
  if (options.chat) {
    v1::ChatMessage* message = chat.add_messages();
    message->set_role("user");
    message->set_content(prompt);
  }
  chat.set_tools_json(options.tools_json);
  chat.set_template_options_json(options.template_options_json);
  chat.set_continue_final_message(options.continue_final_message);
  return chat;
}

}  // namespace dunlin::server
