// SPDX-License-Identifier: Apache-2.0
// The names of request fields in the bodies of each route, for errors of the serving core. Fields with the same name in
// the core are omitted.
#pragma once

#include "engine/request/request_field.h"

namespace dunlin::server {

inline constexpr engine::FieldNames kCompletionFieldNames({
    {engine::RequestField::kStructuredOutput, "structured_outputs"},
    {engine::RequestField::kJsonSchema, "structured_outputs.json"},
    {engine::RequestField::kJsonObject, "structured_outputs.json_object"},
    {engine::RequestField::kRegex, "structured_outputs.regex"},
    {engine::RequestField::kChoices, "structured_outputs.choice"},
    {engine::RequestField::kChoice, "structured_outputs.choice[*]"},
    {engine::RequestField::kGrammar, "structured_outputs.grammar"},
});

// max_tokens: the name that the body gives this limit; it has an older one.
constexpr engine::FieldNames ChatFieldNames(const char* max_tokens) {
  return engine::FieldNames({
      {engine::RequestField::kPrompt, "messages"},
      {engine::RequestField::kPromptText, "messages"},
      {engine::RequestField::kPromptTokens, "messages"},
      {engine::RequestField::kMaxTokens, max_tokens},
      {engine::RequestField::kLogprobs, "top_logprobs"},
      {engine::RequestField::kChat, "messages"},
      {engine::RequestField::kChatParts, "messages[*].content"},
      {engine::RequestField::kChatPartType, "messages[*].content[*].type"},
      {engine::RequestField::kChatPartText, "messages[*].content[*].text"},
      {engine::RequestField::kChatToolCallName, "messages[*].tool_calls[*].function.name"},
      {engine::RequestField::kChatToolCallArguments, "messages[*].tool_calls[*].function.arguments"},
      {engine::RequestField::kChatTools, "tools"},
      {engine::RequestField::kChatTemplateOptions, "chat_template_kwargs"},
      {engine::RequestField::kToolChoiceName, "tool_choice.function.name"},
      {engine::RequestField::kStructuredOutput, "response_format"},
      {engine::RequestField::kJsonSchema, "response_format.json_schema.schema"},
      {engine::RequestField::kJsonObject, "response_format"},
      {engine::RequestField::kRegex, "structured_outputs.regex"},
      {engine::RequestField::kChoices, "structured_outputs.choice"},
      {engine::RequestField::kChoice, "structured_outputs.choice[*]"},
      {engine::RequestField::kGrammar, "structured_outputs.grammar"},
  });
}
inline constexpr engine::FieldNames kChatFieldNames = ChatFieldNames("max_completion_tokens");
inline constexpr engine::FieldNames kOlderChatFieldNames = ChatFieldNames("max_tokens");

// Items become messages, whose indices are not those of the items: errors of a message name the list.
inline constexpr engine::FieldNames kResponsesFieldNames({
    {engine::RequestField::kPrompt, "input"},
    {engine::RequestField::kPromptText, "input"},
    {engine::RequestField::kPromptTokens, "input"},
    {engine::RequestField::kMaxTokens, "max_output_tokens"},
    {engine::RequestField::kLogprobs, "top_logprobs"},
    {engine::RequestField::kChat, "input"},
    {engine::RequestField::kChatMessages, "input"},
    {engine::RequestField::kChatMessage, "input"},
    {engine::RequestField::kChatRole, "input"},
    {engine::RequestField::kChatContent, "input"},
    {engine::RequestField::kChatParts, "input"},
    {engine::RequestField::kChatPartType, "input"},
    {engine::RequestField::kChatPartText, "input"},
    {engine::RequestField::kChatToolCalls, "input"},
    {engine::RequestField::kChatToolCallName, "input: name of a function_call"},
    {engine::RequestField::kChatToolCallArguments, "input: arguments of a function_call"},
    {engine::RequestField::kChatTools, "tools"},
    {engine::RequestField::kChatTemplateOptions, "chat_template_kwargs"},
    {engine::RequestField::kStructuredOutput, "text.format"},
    {engine::RequestField::kJsonSchema, "text.format.schema"},
    {engine::RequestField::kJsonObject, "text.format"},
    {engine::RequestField::kRegex, "structured_outputs.regex"},
    {engine::RequestField::kChoices, "structured_outputs.choice"},
    {engine::RequestField::kChoice, "structured_outputs.choice[*]"},
    {engine::RequestField::kGrammar, "structured_outputs.grammar"},
});

// Blocks become messages, whose indices are not those of the body's messages.
inline constexpr engine::FieldNames kAnthropicFieldNames({
    {engine::RequestField::kPrompt, "messages"},
    {engine::RequestField::kPromptText, "messages"},
    {engine::RequestField::kPromptTokens, "messages"},
    {engine::RequestField::kStopStrings, "stop_sequences"},
    {engine::RequestField::kStopString, "stop_sequences[*]"},
    {engine::RequestField::kChat, "messages"},
    {engine::RequestField::kChatMessage, "messages"},
    {engine::RequestField::kChatRole, "messages"},
    {engine::RequestField::kChatContent, "messages"},
    {engine::RequestField::kChatParts, "messages"},
    {engine::RequestField::kChatPartType, "messages"},
    {engine::RequestField::kChatPartText, "messages"},
    {engine::RequestField::kChatToolCalls, "messages"},
    {engine::RequestField::kChatToolCallName, "messages: name of a tool_use"},
    {engine::RequestField::kChatToolCallArguments, "messages: input of a tool_use"},
    {engine::RequestField::kChatTools, "tools"},
    {engine::RequestField::kChatTemplateOptions, "chat_template_kwargs"},
    {engine::RequestField::kParallelToolCalls, "tool_choice.disable_parallel_tool_use"},
    {engine::RequestField::kStructuredOutput, "output_config.format"},
    {engine::RequestField::kJsonSchema, "output_config.format.schema"},
});

inline constexpr engine::FieldNames kEmbeddingFieldNames({
    {engine::RequestField::kInputs, "input"},
    {engine::RequestField::kInput, "input[*]"},
    {engine::RequestField::kInputText, "input[*]"},
    {engine::RequestField::kInputTokens, "input[*]"},
    {engine::RequestField::kInputToken, "input[*][*]"},
});

inline constexpr engine::FieldNames kRerankRouteFieldNames({
    {engine::RequestField::kInputs, "documents"},
    {engine::RequestField::kInput, "documents[*]"},
    {engine::RequestField::kInputText, "documents[*]"},
});

inline constexpr engine::FieldNames kTextRouteFieldNames({
    {engine::RequestField::kPromptTokens, "tokens"},
    {engine::RequestField::kPromptToken, "tokens[*]"},
});

}  // namespace dunlin::server
