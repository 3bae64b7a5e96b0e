// SPDX-License-Identifier: Apache-2.0
// Messages, tools and tool_choice of a chat completion -> engine::ChatInput. Pure functions, any thread.
#pragma once

#include <optional>
#include <string>

#include "server/fronts/openai/generation_body.h"

namespace dunlin::server {

// "messages": roles system, developer (as system), user, assistant and tool; content as text or parts of type "text".
void ReadMessages(const JsonValue& messages, GenerationBody* body);

// "tools": functions. They become the JSON list that the chat template sees, as they came.
void ReadTools(const JsonValue& tools, GenerationBody* body);

// "auto", "none", "required", or an object {"type": "function"} that names a function: in itself (Responses), or in its
// member "function" (chat completions).
void ReadToolChoice(const JsonValue& choice, GenerationBody* body);

// Tools whose members "name", "description" and `schema` stand in themselves (Responses, Anthropic): they become what
// the chat template sees, {"type": "function", "function": {...}}. `type`: the one type of tool, which may be left out.
void ReadFlatTools(const JsonValue& tools, std::string_view type, std::string_view schema, GenerationBody* body);

// Variables of the chat template: all of an object's members.
void ReadTemplateOptions(const JsonValue& options, GenerationBody* body);

// Content of one message or block: a string, or an array of parts {"type", "text"} whose type is one of `types`
// (separated by spaces). Other members of a part may only be null, or be called cache_control, citations, annotations
// or logprobs.
void ReadContent(const JsonValue& content, std::string_view types, engine::ChatMessage* message);

// The texts of content, joined by line breaks.
std::string ContentText(const engine::ChatMessage& message);

}  // namespace dunlin::server
