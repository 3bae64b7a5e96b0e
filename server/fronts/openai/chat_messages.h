// SPDX-License-Identifier: Apache-2.0
// Messages of a chat completion -> text::ChatInput. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "server/fronts/openai/generation_body.h"

namespace dunlin::server {

// Why content of any other kind is refused.
inline constexpr std::string_view kTextAndImages = "models here read text, and some of them images";

// "messages": roles system, developer (as system), user, assistant, tool and function (as tool); content as text or
// parts of type "text" and "image_url". A refusal is the assistant's content.
void ReadMessages(const JsonValue& messages, GenerationBody* body);

// Variables of the chat template: all of an object's members.
void ReadTemplateOptions(const JsonValue& options, GenerationBody* body);

// Content of one message or block: a string, or an array of parts whose type is one of `types` (separated by spaces),
// or "refusal" with its text. Parts are {"type", "text"}, but those of "image_url" and "input_image" (image_parts.h).
void ReadContent(const JsonValue& content, std::string_view types, text::ChatMessage* message);

// The arguments of a call of a tool that takes a text and no object: {"input": text}.
std::string InputArguments(const JsonValue& input);

// The arguments of a call, a text. A model may have written no JSON object, or only the beginning of one, and its agent
// brings that back with the error of its tool: templates, which read an object, see {"input": text}.
std::string CallArguments(const JsonValue& arguments);

// The texts of content, joined by line breaks.
std::string ContentText(const text::ChatMessage& message);

}  // namespace dunlin::server
