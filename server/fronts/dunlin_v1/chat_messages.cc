// SPDX-License-Identifier: Apache-2.0
#include "server/fronts/dunlin_v1/chat_messages.h"

#include <memory>
#include <string>
#include <utility>

namespace dunlin::server {
namespace {

text::ChatMessage MessageFromWire(v1::ChatMessage* wire) {
  text::ChatMessage message;
  message.role = std::move(*wire->mutable_role());
  if (wire->has_content()) message.content = std::move(*wire->mutable_content());
  for (v1::ContentPart& part : *wire->mutable_parts()) {
    text::ChatPart& out = message.parts.emplace_back();
    out.type = std::move(*part.mutable_type());
    out.text = std::move(*part.mutable_text());
    if (!part.image().empty()) out.image = std::make_shared<const std::string>(std::move(*part.mutable_image()));
  }
  message.name = std::move(*wire->mutable_name());
  for (v1::ToolCall& call : *wire->mutable_tool_calls()) {
    message.tool_calls.push_back(
        {std::move(*call.mutable_id()), std::move(*call.mutable_name()), std::move(*call.mutable_arguments_json())});
  }
  message.tool_call_id = std::move(*wire->mutable_tool_call_id());
  message.reasoning_content = std::move(*wire->mutable_reasoning_content());
  message.extra_fields_json = std::move(*wire->mutable_extra_fields_json());
  return message;
}

}  // namespace

text::ChatInput ChatFromWire(v1::Chat* wire) {
  text::ChatInput chat;
  for (v1::ChatMessage& message : *wire->mutable_messages()) chat.messages.push_back(MessageFromWire(&message));
  chat.tools_json = std::move(*wire->mutable_tools_json());
  chat.template_options_json = std::move(*wire->mutable_template_options_json());
  chat.continue_final_message = wire->continue_final_message();
  chat.add_generation_prompt =
      wire->has_add_generation_prompt() ? wire->add_generation_prompt() : !chat.continue_final_message;
  chat.parse_special_tokens = wire->parse_special_tokens();
  return chat;
}

}  // namespace dunlin::server
