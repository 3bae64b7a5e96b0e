// SPDX-License-Identifier: Apache-2.0
// The names of request fields in the messages of dunlin.v1, as paths in the proto. Fields with the same name in the
// core are omitted.
#pragma once

#include "engine/request/request_field.h"

namespace dunlin::server {

inline constexpr engine::FieldNames kGenerateFieldNames({
    {engine::RequestField::kPrompt, "input"},
    {engine::RequestField::kPromptText, "text"},
    {engine::RequestField::kPromptTokens, "token_ids.ids"},
    {engine::RequestField::kPromptToken, "token_ids.ids[*]"},
    {engine::RequestField::kNumOutputs, "sampling.n"},
    {engine::RequestField::kTemperature, "sampling.temperature"},
    {engine::RequestField::kTopK, "sampling.top_k"},
    {engine::RequestField::kTopP, "sampling.top_p"},
    {engine::RequestField::kMinP, "sampling.min_p"},
    {engine::RequestField::kRepetitionPenalty, "sampling.repetition_penalty"},
    {engine::RequestField::kPresencePenalty, "sampling.presence_penalty"},
    {engine::RequestField::kFrequencyPenalty, "sampling.frequency_penalty"},
    {engine::RequestField::kLogitBias, "sampling.logit_bias"},
    {engine::RequestField::kLogitBiasToken, "sampling.logit_bias key"},
    {engine::RequestField::kLogitBiasValue, "sampling.logit_bias[*]"},
    {engine::RequestField::kAllowedTokenIds, "sampling.allowed_token_ids"},
    {engine::RequestField::kAllowedTokenId, "sampling.allowed_token_ids[*]"},
    {engine::RequestField::kBadWordsIds, "sampling.bad_words_ids"},
    {engine::RequestField::kBadWordIds, "sampling.bad_words_ids[*].ids"},
    {engine::RequestField::kBadWordId, "sampling.bad_words_ids[*].ids[*]"},
    {engine::RequestField::kBadWords, "sampling.bad_words"},
    {engine::RequestField::kBadWord, "sampling.bad_words[*]"},
    {engine::RequestField::kMaxTokens, "stopping.max_tokens"},
    {engine::RequestField::kMinTokens, "stopping.min_tokens"},
    {engine::RequestField::kStopStrings, "stopping.stop"},
    {engine::RequestField::kStopString, "stopping.stop[*]"},
    {engine::RequestField::kStopTokenIds, "stopping.stop_token_ids"},
    {engine::RequestField::kStopTokenId, "stopping.stop_token_ids[*]"},
    {engine::RequestField::kLogprobs, "output.logprobs"},
    {engine::RequestField::kPromptLogprobs, "output.prompt_logprobs"},
    {engine::RequestField::kOmitText, "output.omit_text"},
    {engine::RequestField::kEcho, "output.echo"},
    {engine::RequestField::kDevice, "execution.device"},
    {engine::RequestField::kAttentionBackend, "execution.attention_backend"},
    {engine::RequestField::kPrecision, "execution.precision"},
    {engine::RequestField::kChatMessages, "chat.messages"},
    {engine::RequestField::kChatMessage, "chat.messages[*]"},
    {engine::RequestField::kChatRole, "chat.messages[*].role"},
    {engine::RequestField::kChatContent, "chat.messages[*].content"},
    {engine::RequestField::kChatParts, "chat.messages[*].parts"},
    {engine::RequestField::kChatPartType, "chat.messages[*].parts[*].type"},
    {engine::RequestField::kChatPartText, "chat.messages[*].parts[*].text"},
    {engine::RequestField::kChatToolCalls, "chat.messages[*].tool_calls"},
    {engine::RequestField::kChatToolCallName, "chat.messages[*].tool_calls[*].name"},
    {engine::RequestField::kChatToolCallArguments, "chat.messages[*].tool_calls[*].arguments_json"},
    {engine::RequestField::kChatExtraFields, "chat.messages[*].extra_fields_json"},
    {engine::RequestField::kChatTools, "chat.tools_json"},
    {engine::RequestField::kChatTemplateOptions, "chat.template_options_json"},
    {engine::RequestField::kChatAddGenerationPrompt, "chat.add_generation_prompt"},
    {engine::RequestField::kChatContinueFinalMessage, "chat.continue_final_message"},
    {engine::RequestField::kChatParseSpecialTokens, "chat.parse_special_tokens"},
    {engine::RequestField::kToolChoice, "chat.tool_choice"},
    {engine::RequestField::kToolChoiceName, "chat.tool_choice.name"},
    {engine::RequestField::kParallelToolCalls, "chat.parallel_tool_calls"},
    {engine::RequestField::kRawChatOutput, "output.raw_chat_output"},
    {engine::RequestField::kJsonSchema, "structured_output.json_schema"},
    {engine::RequestField::kJsonObject, "structured_output.json_object"},
    {engine::RequestField::kRegex, "structured_output.regex"},
    {engine::RequestField::kChoices, "structured_output.choice.texts"},
    {engine::RequestField::kChoice, "structured_output.choice.texts[*]"},
    {engine::RequestField::kGrammar, "structured_output.grammar"},
});

inline constexpr engine::FieldNames kEmbedFieldNames({
    {engine::RequestField::kInputText, "inputs[*].text"},
    {engine::RequestField::kInputTokens, "inputs[*].token_ids.ids"},
    {engine::RequestField::kInputToken, "inputs[*].token_ids.ids[*]"},
    {engine::RequestField::kDevice, "execution.device"},
    {engine::RequestField::kAttentionBackend, "execution.attention_backend"},
    {engine::RequestField::kPrecision, "execution.precision"},
});

inline constexpr engine::FieldNames kRerankFieldNames({
    {engine::RequestField::kInputs, "documents"},
    {engine::RequestField::kInput, "documents[*]"},
    {engine::RequestField::kInputText, "documents[*]"},
    {engine::RequestField::kDevice, "execution.device"},
    {engine::RequestField::kAttentionBackend, "execution.attention_backend"},
    {engine::RequestField::kPrecision, "execution.precision"},
});

inline constexpr engine::FieldNames kTokenizerFieldNames({
    {engine::RequestField::kPromptText, "text"},
    {engine::RequestField::kPromptTokens, "token_ids"},
    {engine::RequestField::kPromptToken, "token_ids[*]"},
});

}  // namespace dunlin::server
