// SPDX-License-Identifier: Apache-2.0
// The fields of client requests: those of the engine (engine/request/request_field.h), and those that only a client's
// API has; and how the messages of one API name them. Plain data and pure functions, any thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "engine/request/request_field.h"

namespace dunlin::server {

enum class ClientField : uint8_t {
  kModel = engine::kNumRequestFields,
  kRequestId,
  // The prompt of a generation, the text or the tokens of a tokenizer call.
  kPrompt,  // of whatever kind
  kPromptText,
  kTruncatePromptTokens,
  // Sampling.
  kNumOutputs,
  kBadWords,
  kBadWord,  // [index]
  // Stopping.
  kStopStrings,
  kStopString,  // [index]
  // Output.
  kOmitText,
  kEcho,
  // Execution.
  kDevice,
  kAttentionBackend,
  kSpeculation,
  // Embeddings.
  kInputText,    // [index]
  kInputTokens,  // [index]
  kPooling,
  kPromptName,
  kQuery,
  kTopN,
  // Chats.
  kChat,
  kChatMessages,
  kChatMessage,            // [index]
  kChatRole,               // [message]
  kChatContent,            // [message]
  kChatParts,              // [message]
  kChatPartType,           // [message][part]
  kChatPartText,           // [message][part]
  kChatPartImage,          // [message][part]
  kChatImages,             // in all messages
  kChatToolCalls,          // [message]
  kChatToolCallName,       // [message][call]
  kChatToolCallArguments,  // [message][call]
  kChatExtraFields,        // [message]
  kChatTools,
  kChatTemplateOptions,
  kChatAddGenerationPrompt,
  kChatContinueFinalMessage,
  kChatParseSpecialTokens,
  kToolChoice,
  kToolChoiceName,
  kParallelToolCalls,
  kRawChatOutput,
  // Structured output.
  kStructuredOutput,
  kJsonSchema,
  kJsonObject,
  kRegex,
  kChoices,
  kChoice,  // [index]
  kGrammar,
};
inline constexpr size_t kNumFields = static_cast<size_t>(ClientField::kGrammar) + 1;  // of both enumerations

}  // namespace dunlin::server

template <>
inline constexpr bool dunlin::engine::kIsFieldEnum<dunlin::server::ClientField> = true;

namespace dunlin::server {

// The fields' plain names.
inline constexpr engine::NamedField kClientFieldTable[kNumFields - engine::kNumRequestFields] = {
    {ClientField::kModel, "model"},
    {ClientField::kRequestId, "request_id"},
    {ClientField::kPrompt, "prompt"},
    {ClientField::kPromptText, "prompt"},
    {ClientField::kTruncatePromptTokens, "truncate_prompt_tokens"},
    {ClientField::kNumOutputs, "n"},
    {ClientField::kBadWords, "bad_words"},
    {ClientField::kBadWord, "bad_words[*]"},
    {ClientField::kStopStrings, "stop"},
    {ClientField::kStopString, "stop[*]"},
    {ClientField::kOmitText, "omit_text"},
    {ClientField::kEcho, "echo"},
    {ClientField::kDevice, "device"},
    {ClientField::kAttentionBackend, "attention_backend"},
    {ClientField::kSpeculation, "speculation"},
    {ClientField::kInputText, "inputs[*]"},
    {ClientField::kInputTokens, "inputs[*]"},
    {ClientField::kPooling, "pooling"},
    {ClientField::kPromptName, "prompt_name"},
    {ClientField::kQuery, "query"},
    {ClientField::kTopN, "top_n"},
    {ClientField::kChat, "chat"},
    {ClientField::kChatMessages, "messages"},
    {ClientField::kChatMessage, "messages[*]"},
    {ClientField::kChatRole, "messages[*].role"},
    {ClientField::kChatContent, "messages[*].content"},
    {ClientField::kChatParts, "messages[*].parts"},
    {ClientField::kChatPartType, "messages[*].parts[*].type"},
    {ClientField::kChatPartText, "messages[*].parts[*].text"},
    {ClientField::kChatPartImage, "messages[*].parts[*].image"},
    {ClientField::kChatImages, "messages[*].parts"},
    {ClientField::kChatToolCalls, "messages[*].tool_calls"},
    {ClientField::kChatToolCallName, "messages[*].tool_calls[*].name"},
    {ClientField::kChatToolCallArguments, "messages[*].tool_calls[*].arguments_json"},
    {ClientField::kChatExtraFields, "messages[*].extra_fields_json"},
    {ClientField::kChatTools, "tools_json"},
    {ClientField::kChatTemplateOptions, "template_options_json"},
    {ClientField::kChatAddGenerationPrompt, "add_generation_prompt"},
    {ClientField::kChatContinueFinalMessage, "continue_final_message"},
    {ClientField::kChatParseSpecialTokens, "parse_special_tokens"},
    {ClientField::kToolChoice, "tool_choice"},
    {ClientField::kToolChoiceName, "tool_choice.name"},
    {ClientField::kParallelToolCalls, "parallel_tool_calls"},
    {ClientField::kRawChatOutput, "raw_chat_output"},
    {ClientField::kStructuredOutput, "structured_output"},
    {ClientField::kJsonSchema, "json_schema"},
    {ClientField::kJsonObject, "json_object"},
    {ClientField::kRegex, "regex"},
    {ClientField::kChoices, "choice"},
    {ClientField::kChoice, "choice[*]"},
    {ClientField::kGrammar, "grammar"},
};
static_assert(engine::InOrder(kClientFieldTable, engine::kNumRequestFields));

// How one kind of message names the fields.
class FieldNames {
 public:
  // The fields' plain names ("top_p"), but those of the rows.
  constexpr explicit FieldNames(std::initializer_list<engine::NamedField> rows) {
    for (const engine::NamedField& row : engine::kRequestFieldTable) Set(row);
    for (const engine::NamedField& row : kClientFieldTable) Set(row);
    for (const engine::NamedField& row : rows) Set(row);
  }
  constexpr void Set(const engine::NamedField& row) { names_[row.field.id()] = row.name; }
  constexpr const char* operator[](engine::Field field) const { return names_[field.id()]; }
  engine::FieldNameList list() const { return names_; }

 private:
  std::array<const char*, kNumFields> names_{};
};
inline constexpr FieldNames kPlainFieldNames({});

}  // namespace dunlin::server
