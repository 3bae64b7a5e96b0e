// SPDX-License-Identifier: Apache-2.0
// Tools and the choice among them, of all routes: they become the JSON list that the chat template sees. The server
// runs no tools: those that are no functions are left out (JsonValue::LeaveOut), and cannot be chosen. Pure functions,
// any thread.
#pragma once

#include <string>
#include <string_view>

#include "server/fronts/openai/generation_body.h"

namespace dunlin::server {

// "tools" of chat completions: functions as they came.
void ReadTools(const JsonValue& tools, GenerationBody* body);

// Where the members of a function stand in the tool itself (responses, messages).
struct FlatToolForm {
  std::string_view type;    // of a function; it may be missing
  std::string_view schema;  // the member that is the schema of the arguments
  std::string_view known;   // other members of the API, separated by spaces
};
// They become {"type": "function", "function": {"name", "description", "parameters"}}. The functions in a tool of the
// type "namespace" are offered under their own names; one whose name is taken is NAMESPACE__NAME.
void ReadFlatTools(const JsonValue& tools, const FlatToolForm& form, GenerationBody* body);

// "auto", "none", "required", or an object: {"type": "function"} that names a function in itself (responses) or in its
// member "function" (chat completions); {"type": "allowed_tools"} with "mode" and "tools", in itself or in its member
// "allowed_tools".
void ReadToolChoice(const JsonValue& choice, GenerationBody* body);

// Once all members are read: leaves the allowed tools alone in the chat, and gives the calls of a history the names
// under which their tools are offered. Records an error if an allowed tool is not there.
void SettleTools(const JsonValue& root, GenerationBody* body);

}  // namespace dunlin::server
