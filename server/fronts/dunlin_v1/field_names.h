// SPDX-License-Identifier: Apache-2.0
// The names of request fields in the messages of dunlin.v1, as paths in the proto. Fields with the same name in the
// core are omitted.
#pragma once

#include "server/serving/record/client_field.h"

namespace dunlin::server {

inline constexpr FieldNames kGenerateFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPrompt, "input"},
      {kPromptText, "text"},
      {kPromptTokens, "token_ids.ids"},
      {kPromptToken, "token_ids.ids[*]"},
      {kNumOutputs, "sampling.n"},
      {kTemperature, "sampling.temperature"},
      {kTopK, "sampling.top_k"},
      {kTopP, "sampling.top_p"},
      {kMinP, "sampling.min_p"},
      {kRepetitionPenalty, "sampling.repetition_penalty"},
      {kPresencePenalty, "sampling.presence_penalty"},
      {kFrequencyPenalty, "sampling.frequency_penalty"},
      {kLogitBias, "sampling.logit_bias"},
      {kLogitBiasToken, "sampling.logit_bias key"},
      {kLogitBiasValue, "sampling.logit_bias[*]"},
      {kAllowedTokenIds, "sampling.allowed_token_ids"},
      {kAllowedTokenId, "sampling.allowed_token_ids[*]"},
      {kBadWordsIds, "sampling.bad_words_ids"},
      {kBadWordIds, "sampling.bad_words_ids[*].ids"},
      {kBadWordId, "sampling.bad_words_ids[*].ids[*]"},
      {kBadWords, "sampling.bad_words"},
      {kBadWord, "sampling.bad_words[*]"},
      {kMaxTokens, "stopping.max_tokens"},
      {kMinTokens, "stopping.min_tokens"},
      {kStopStrings, "stopping.stop"},
      {kStopString, "stopping.stop[*]"},
      {kStopTokenIds, "stopping.stop_token_ids"},
      {kStopTokenId, "stopping.stop_token_ids[*]"},
      {kLogprobs, "output.logprobs"},
      {kPromptLogprobs, "output.prompt_logprobs"},
      {kOmitText, "output.omit_text"},
      {kEcho, "output.echo"},
      {kDevice, "execution.device"},
      {kAttentionBackend, "execution.attention_backend"},
      {kPrecision, "execution.precision"},
      {kChatMessages, "chat.messages"},
      {kChatMessage, "chat.messages[*]"},
      {kChatRole, "chat.messages[*].role"},
      {kChatContent, "chat.messages[*].content"},
      {kChatParts, "chat.messages[*].parts"},
      {kChatPartType, "chat.messages[*].parts[*].type"},
      {kChatPartText, "chat.messages[*].parts[*].text"},
      {kChatToolCalls, "chat.messages[*].tool_calls"},
      {kChatToolCallName, "chat.messages[*].tool_calls[*].name"},
      {kChatToolCallArguments, "chat.messages[*].tool_calls[*].arguments_json"},
      {kChatExtraFields, "chat.messages[*].extra_fields_json"},
      {kChatTools, "chat.tools_json"},
      {kChatTemplateOptions, "chat.template_options_json"},
      {kChatAddGenerationPrompt, "chat.add_generation_prompt"},
      {kChatContinueFinalMessage, "chat.continue_final_message"},
      {kChatParseSpecialTokens, "chat.parse_special_tokens"},
      {kToolChoice, "chat.tool_choice"},
      {kToolChoiceName, "chat.tool_choice.name"},
      {kParallelToolCalls, "chat.parallel_tool_calls"},
      {kRawChatOutput, "output.raw_chat_output"},
      {kJsonSchema, "structured_output.json_schema"},
      {kJsonObject, "structured_output.json_object"},
      {kRegex, "structured_output.regex"},
      {kChoices, "structured_output.choice.texts"},
      {kChoice, "structured_output.choice.texts[*]"},
      {kGrammar, "structured_output.grammar"},
  });
}();

inline constexpr FieldNames kEmbedFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kInputText, "inputs[*].text"},
      {kInputTokens, "inputs[*].token_ids.ids"},
      {kInputToken, "inputs[*].token_ids.ids[*]"},
      {kDevice, "execution.device"},
      {kAttentionBackend, "execution.attention_backend"},
      {kPrecision, "execution.precision"},
  });
}();

inline constexpr FieldNames kRerankFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kInputs, "documents"},
      {kInput, "documents[*]"},
      {kInputText, "documents[*]"},
      {kDevice, "execution.device"},
      {kAttentionBackend, "execution.attention_backend"},
      {kPrecision, "execution.precision"},
  });
}();

inline constexpr FieldNames kTokenizerFieldNames = [] {
  using enum engine::RequestField;
  using enum ClientField;
  return FieldNames({
      {kPromptText, "text"},
      {kPromptTokens, "token_ids"},
      {kPromptToken, "token_ids[*]"},
  });
}();

}  // namespace dunlin::server
