// SPDX-License-Identifier: Apache-2.0
// The names of request fields in the bodies of each route, for errors of the serving core.
#pragma once

#include "server/serving/record/client_field.h"

namespace dunlin::server::ollama {

// chat: the member that the chat comes from. images, image: those of images, and one of them.
constexpr FieldNames GenerationFieldNames(const char* chat, const char* images, const char* image) {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPrompt, chat},
      {kPromptText, chat},
      {kPromptTokens, chat},
      {kTemperature, "options.temperature"},
      {kTopK, "options.top_k"},
      {kTopP, "options.top_p"},
      {kMinP, "options.min_p"},
      {kRepetitionPenalty, "options.repeat_penalty"},
      {kPresencePenalty, "options.presence_penalty"},
      {kFrequencyPenalty, "options.frequency_penalty"},
      {kMaxTokens, "options.num_predict"},
      {kStopStrings, "options.stop"},
      {kStopString, "options.stop[*]"},
      {kLogprobs, "top_logprobs"},
      {kChat, chat},
      {kChatParts, images},
      {kChatPartType, image},
      {kChatPartImage, image},
      {kChatImages, images},
      {kChatToolCallName, "messages[*].tool_calls[*].function.name"},
      {kChatToolCallArguments, "messages[*].tool_calls[*].function.arguments"},
      {kChatTools, "tools"},
      {kChatTemplateOptions, "think"},
      {kStructuredOutput, "format"},
      {kJsonSchema, "format"},
      {kJsonObject, "format"},
  });
}
inline constexpr FieldNames kChatFieldNames =
    GenerationFieldNames("messages", "messages[*].images", "messages[*].images[*]");
inline constexpr FieldNames kGenerateFieldNames = GenerationFieldNames("prompt", "images", "images");

constexpr FieldNames VectorsFieldNames(const char* inputs, const char* input) {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({{kInputs, inputs}, {kInput, input}, {kInputText, input}});
}
inline constexpr FieldNames kEmbedFieldNames = VectorsFieldNames("input", "input[*]");
inline constexpr FieldNames kEmbeddingsFieldNames = VectorsFieldNames("prompt", "prompt");

}  // namespace dunlin::server::ollama
