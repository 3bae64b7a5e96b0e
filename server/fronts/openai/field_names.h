// SPDX-License-Identifier: Apache-2.0
// The names of request fields in the bodies of each route, for errors of the serving core. Fields with the same name in
// the core are omitted.
#pragma once

#include "server/serving/record/client_field.h"

namespace dunlin::server {

inline constexpr FieldNames kCompletionFieldNames = [] {
  using enum ClientField;
  return FieldNames({
      {kStructuredOutput, "structured_outputs"},
      {kJsonSchema, "structured_outputs.json"},
      {kJsonObject, "structured_outputs.json_object"},
      {kRegex, "structured_outputs.regex"},
      {kChoices, "structured_outputs.choice"},
      {kChoice, "structured_outputs.choice[*]"},
      {kGrammar, "structured_outputs.grammar"},
  });
}();

// max_tokens: the name that the body gives this limit; it has an older one.
constexpr FieldNames ChatFieldNames(const char* max_tokens) {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPrompt, "messages"},
      {kPromptText, "messages"},
      {kPromptTokens, "messages"},
      {kMaxTokens, max_tokens},
      {kLogprobs, "top_logprobs"},
      {kChat, "messages"},
      {kChatParts, "messages[*].content"},
      {kChatPartType, "messages[*].content[*].type"},
      {kChatPartText, "messages[*].content[*].text"},
      {kChatPartImage, "messages[*].content[*].image_url"},
      {kChatImages, "messages[*].content"},
      {kChatToolCallName, "messages[*].tool_calls[*].function.name"},
      {kChatToolCallArguments, "messages[*].tool_calls[*].function.arguments"},
      {kChatTools, "tools"},
      {kChatTemplateOptions, "chat_template_kwargs"},
      {kToolChoiceName, "tool_choice.function.name"},
      {kStructuredOutput, "response_format"},
      {kJsonSchema, "response_format.json_schema.schema"},
      {kJsonObject, "response_format"},
      {kRegex, "structured_outputs.regex"},
      {kChoices, "structured_outputs.choice"},
      {kChoice, "structured_outputs.choice[*]"},
      {kGrammar, "structured_outputs.grammar"},
  });
}
inline constexpr FieldNames kChatFieldNames = ChatFieldNames("max_completion_tokens");
inline constexpr FieldNames kOlderChatFieldNames = ChatFieldNames("max_tokens");

// Items become messages, whose indices are not those of the items: errors of a message name the list.
inline constexpr FieldNames kResponsesFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPrompt, "input"},
      {kPromptText, "input"},
      {kPromptTokens, "input"},
      {kMaxTokens, "max_output_tokens"},
      {kLogprobs, "top_logprobs"},
      {kChat, "input"},
      {kChatMessages, "input"},
      {kChatMessage, "input"},
      {kChatRole, "input"},
      {kChatContent, "input"},
      {kChatParts, "input"},
      {kChatPartType, "input"},
      {kChatPartText, "input"},
      {kChatPartImage, "input"},
      {kChatImages, "input"},
      {kChatToolCalls, "input"},
      {kChatToolCallName, "input: name of a function_call"},
      {kChatToolCallArguments, "input: arguments of a function_call"},
      {kChatTools, "tools"},
      {kChatTemplateOptions, "chat_template_kwargs"},
      {kStructuredOutput, "text.format"},
      {kJsonSchema, "text.format.schema"},
      {kJsonObject, "text.format"},
      {kRegex, "structured_outputs.regex"},
      {kChoices, "structured_outputs.choice"},
      {kChoice, "structured_outputs.choice[*]"},
      {kGrammar, "structured_outputs.grammar"},
  });
}();

// Blocks become messages, whose indices are not those of the body's messages.
inline constexpr FieldNames kAnthropicFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPrompt, "messages"},
      {kPromptText, "messages"},
      {kPromptTokens, "messages"},
      {kStopStrings, "stop_sequences"},
      {kStopString, "stop_sequences[*]"},
      {kChat, "messages"},
      {kChatMessage, "messages"},
      {kChatRole, "messages"},
      {kChatContent, "messages"},
      {kChatParts, "messages"},
      {kChatPartType, "messages"},
      {kChatPartText, "messages"},
      {kChatPartImage, "messages"},
      {kChatImages, "messages"},
      {kChatToolCalls, "messages"},
      {kChatToolCallName, "messages: name of a tool_use"},
      {kChatToolCallArguments, "messages: input of a tool_use"},
      {kChatTools, "tools"},
      {kChatTemplateOptions, "chat_template_kwargs"},
      {kParallelToolCalls, "tool_choice.disable_parallel_tool_use"},
      {kStructuredOutput, "output_config.format"},
      {kJsonSchema, "output_config.format.schema"},
  });
}();

inline constexpr FieldNames kEmbeddingFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kInputs, "input"},
      {kInput, "input[*]"},
      {kInputText, "input[*]"},
      {kInputTokens, "input[*]"},
      {kInputToken, "input[*][*]"},
  });
}();

inline constexpr FieldNames kRerankRouteFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kInputs, "documents"},
      {kInput, "documents[*]"},
      {kInputText, "documents[*]"},
  });
}();

inline constexpr FieldNames kTextRouteFieldNames = [] {
  using enum engine::RequestField;
  return FieldNames({
      {kPromptTokens, "tokens"},
      {kPromptToken, "tokens[*]"},
  });
}();

}  // namespace dunlin::server
