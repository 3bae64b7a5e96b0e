// SPDX-License-Identifier: Apache-2.0
#include "tools/cli/chat_messages.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "tools/cli/image_parts.h"

namespace dunlin::cli {
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

absl::Status TakePart(Json* part, v1::ContentPart* out) {
  if (!part->is_object()) return absl::OkStatus();  // the server refuses a part without a type
  TakeText("type", part, out->mutable_type());
  TakeText("text", part, out->mutable_text());
  if (out->type() != "image_url") return absl::OkStatus();
  absl::StatusOr<v1::ContentPart> image = ImageOfJson(*part);
  if (!image.ok()) return image.status();
  *out = *std::move(image);
  return absl::OkStatus();
}

absl::Status TakeContent(Json* fields, v1::ChatMessage* message) {
  std::string text;
  if (TakeText("content", fields, &text)) {
    message->set_content(std::move(text));
    return absl::OkStatus();
  }
  const auto content = fields->find("content");
  if (content == fields->end()) return absl::OkStatus();
  if (content->is_array()) {
    for (Json& part : *content) {
      if (absl::Status s = TakePart(&part, message->add_parts()); !s.ok()) return s;
    }
  }
  if (content->is_array() || content->is_null()) fields->erase(content);
  return absl::OkStatus();
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

Json CallJson(const v1::ToolCall& call) {
  Json function = {{"name", call.name()}, {"arguments", call.arguments_json()}};
  Json json;
  if (!call.id().empty()) json["id"] = call.id();
  json["type"] = "function";
  json["function"] = std::move(function);
  return json;
}

}  // namespace

absl::Status AddMessages(const std::string& json, v1::Chat* chat) {
  Json messages = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (messages.is_object()) messages = Json::array({std::move(messages)});
  if (!messages.is_array()) return absl::InvalidArgumentError("--messages is not a JSON list");
  for (Json& fields : messages) {
    if (!fields.is_object()) return absl::InvalidArgumentError("--messages has an entry that is not an object");
    v1::ChatMessage* message = chat->add_messages();
    TakeText("role", &fields, message->mutable_role());
    if (absl::Status s = TakeContent(&fields, message); !s.ok()) return s;
    TakeText("name", &fields, message->mutable_name());
    TakeToolCalls(&fields, message);
    TakeText("tool_call_id", &fields, message->mutable_tool_call_id());
    TakeText("reasoning_content", &fields, message->mutable_reasoning_content());
    if (!fields.empty()) message->set_extra_fields_json(fields.dump());
  }
  return absl::OkStatus();
}

Json MessageJson(const v1::ChatMessage& message) {
  Json json = {{"role", message.role()}};
  if (message.has_content()) json["content"] = message.content();
  for (const v1::ContentPart& part : message.parts()) {
    const bool image = part.type() == "image";
    json["content"].push_back(image ? ImageJson(part) : Json{{"type", part.type()}, {"text", part.text()}});
  }
  if (!message.name().empty()) json["name"] = message.name();
  if (!message.reasoning_content().empty()) json["reasoning_content"] = message.reasoning_content();
  for (const v1::ToolCall& call : message.tool_calls()) json["tool_calls"].push_back(CallJson(call));
  if (!message.tool_call_id().empty()) json["tool_call_id"] = message.tool_call_id();
  if (!message.extra_fields_json().empty()) {
    json.update(Json::parse(message.extra_fields_json(), nullptr, /*allow_exceptions=*/false));
  }
  return json;
}

}  // namespace dunlin::cli
