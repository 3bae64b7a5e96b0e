// SPDX-License-Identifier: Apache-2.0
// What a body of any generating route holds, and the fields that these routes share. Plain data, pure functions.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "server/json/field_table.h"
#include "server/json/json_value.h"
#include "server/serving/record/client_request.h"
#include "text/chat_template.h"

namespace dunlin::server {

// A function of a namespace of tools (responses).
struct NamespacedTool {
  std::string offered;  // its name among the chat's tools
  std::string space;
  std::string name;  // in its namespace
};

// What the response depends on besides the ClientRequest, and what is put together from several fields.
struct GenerationBody {
  // refuses_unknown: members, tools and blocks without effect are errors; else request->ignored names them.
  explicit GenerationBody(ClientRequest* client_request, bool refuses_unknown = false)
      : request(client_request), strict(refuses_unknown) {}

  ClientRequest* request;
  bool strict;
  text::ChatInput chat;                       // of a chat
  std::optional<text::ChatMessage> system;    // its first message, wherever the body has it
  std::vector<ClientPrompt> further_prompts;  // of completions: those behind the request's
  Json template_options = Json::object();     // of a chat: chat_template_kwargs and what stands for one of them
  std::string format;                         // where the format is whose constraint the request has; "": nowhere
  std::optional<bool> add_generation_prompt;
  bool stream = false;
  bool include_usage = false;
  bool continuous_usage = false;
  bool return_token_ids = false;
  bool logprobs = false;                           // of chats and responses
  std::optional<int32_t> top_logprobs;             // as above
  std::optional<int32_t> best_of;                  // of completions
  std::span<const std::string_view> echoed_names;  // set before reading: fields that the response repeats as they came
  Json echoed = Json::object();                    // those that the body has
  std::optional<std::vector<std::string>> allowed_tools;  // of tool_choice: no other tool is the chat's
  std::vector<NamespacedTool> namespaced;                 // of tools
  // A call in the history of a function in a namespace: a message of the chat, and one of its calls.
  struct NamespacedCall {
    size_t message = 0;
    size_t call = 0;
    std::string space;
  };
  std::vector<NamespacedCall> namespaced_calls;
};

using GenerationRow = FieldRow<GenerationBody>;
using GenerationTable = FieldTable<GenerationBody>;

// Sampling, stopping and output: OpenAI's names, vLLM's further ones, and the server's own.
extern const GenerationTable kSamplingFields;
// device, attention_backend, precision, allow_fallback, priority, cache_salt, request_id.
extern const GenerationTable kServingFields;
// response_format, structured_outputs, guided_*.
extern const GenerationTable kStructureFields;
// stream and stream_options.
extern const GenerationTable kStreamFields;
// The fields of a route of OpenAI's older APIs: its own, and all of these.
inline std::array<GenerationTable, 5> WithSharedFields(const GenerationTable& own) {
  return {own, kSamplingFields, kServingFields, kStructureFields, kStreamFields};
}

// The constraint of a "text", "json_object" (with a "schema" or without) or "json_schema" format. `format`: {"type",
// ...}; `schema_parent`: where the "schema" of a "json_schema" is, an object with "name", "schema", "strict" and
// "description".
void ReadFormat(const JsonValue& format, const JsonValue& schema_parent, GenerationBody* body);
// Records an error unless the value is "low", "medium" or "high".
void ExpectVerbosity(const JsonValue& value);
// Records an error if there is a constraint already.
void SetConstraint(const JsonValue& value, text::GrammarSource source, GenerationBody* body);
// A variable of the chat template. Records an error if the body gives it twice.
void SetTemplateOption(const JsonValue& value, const std::string& name, const Json& option, GenerationBody* body);

// Parses a body by its tables into *body. Errors: as ParseBody, and the first of any field.
absl::Status ReadGenerationBody(std::string_view text, std::span<const GenerationTable> tables, GenerationBody* body);
// Moves the chat into the request, with its first message, the template's options and the generation prompt.
void FinishChat(GenerationBody* body);

}  // namespace dunlin::server
